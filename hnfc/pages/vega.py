"""The scripts of Vega-Lite, which draw the plots of a report: an optional package ships them."""

from __future__ import annotations

from functools import cache

from markupsafe import Markup


@cache
def vega_script() -> Markup:
    """Vega, Vega-Lite and Vega-Embed as one script; empty where the package that has them is not installed."""
    try:
        import vl_convert
    except ModuleNotFoundError:
        return Markup("")
    # a script ends at its first end tag, wherever that stands
    return Markup(vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;").replace("</script", "<\\/script").replace("<!--", "<\\!--"))
