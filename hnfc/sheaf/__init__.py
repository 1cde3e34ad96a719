"""The precision sheaf: assignments of formats to values, what glues, and the reason where nothing does.

Pure mathematics on finite graphs: no module here knows of torch, of the IR, or of what a format is.
"""
