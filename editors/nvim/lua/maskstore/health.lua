-- SPDX-License-Identifier: MIT
-- `:checkhealth maskstore`: what a person can mend, each with the way to mend it.
local M = {}

local function check_neovim()
  local health = vim.health
  if vim.fn.has('nvim-0.11') == 0 then
    health.error('Neovim is older than 0.11', { 'Install Neovim 0.12, or 0.11 for the completion menu only' })
  elseif require('maskstore').has_ghost_text() then
    health.ok('Neovim shows ghost text (vim.lsp.inline_completion)')
  else
    health.warn('Neovim 0.11 has no ghost text; text is offered in the completion menu', { 'Install Neovim 0.12' })
  end
end

local function check_binary(cmd)
  local health = vim.health
  local path = vim.fn.exepath(cmd[1])
  if path == '' then
    health.error(("cannot run '%s'"):format(cmd[1]), {
      'Build it: run tools/run in the maskstore checkout',
      "Then require('maskstore').setup{ path = 'CHECKOUT/build/maskstore' }, or put it on PATH",
    })
    return
  end
  local result = vim.system({ path, '--version' }, { text = true }):wait(5000)
  if result.code == 0 then
    health.ok(('%s: %s'):format(path, vim.trim(result.stdout or '')))
  else
    health.error(('%s --version ended with status %d'):format(path, result.code), { vim.trim(result.stderr or '') })
  end
end

local function check_model(model)
  local health = vim.health
  if not model then
    health.info('no model given: the server takes its default one')
  elseif vim.fn.filereadable(vim.fn.expand(model)) == 1 then
    health.ok('model: ' .. vim.fn.expand(model))
  else
    health.error('cannot read the model ' .. model, { 'Fetch one: tools/fetch-model default' })
  end
end

function M.check()
  local health = vim.health
  local options = require('maskstore').options()
  health.start('maskstore')
  check_neovim()
  local cmd = vim.lsp.config.maskstore and vim.lsp.config.maskstore.cmd or require('maskstore').command(options)
  check_binary(cmd)
  check_model(options.model)
  local clients = vim.lsp.get_clients({ name = 'maskstore' })
  if #clients == 0 then
    health.info('no server runs: open a Python file')
  end
  for _, client in ipairs(clients) do
    health.ok(('server runs for %d buffer(s) in %s'):format(
      vim.tbl_count(client.attached_buffers), client.root_dir or 'no workspace'))
    if not client:supports_method('textDocument/inlineCompletion') then
      health.warn('this server does not offer inline completion', { 'Update maskstore' })
    end
  end
  health.info('log of the client: ' .. vim.lsp.log.get_filename())
end

return M
