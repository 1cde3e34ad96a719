"""Language server for rule files: `hnfc lsp`."""
