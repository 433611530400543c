-- SPDX-License-Identifier: MIT
-- How Neovim 0.11+ starts maskstore. Enough on its own: `vim.lsp.enable('maskstore')`. `require('maskstore').setup{}`
-- builds on it with the command line, ghost text and key maps.
return {
  cmd = { 'maskstore', 'serve', '--stdio' },
  filetypes = { 'python' },
  root_markers = { 'pyproject.toml', 'setup.py', 'setup.cfg', 'requirements.txt', '.git' },
  -- The server's own settings, under the section it asks for by workspace/configuration.
  settings = { maskstore = vim.empty_dict() },
}
