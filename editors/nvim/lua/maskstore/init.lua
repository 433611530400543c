-- SPDX-License-Identifier: MIT
-- Neovim client of maskstore: starts the server and shows its text.
-- Neovim 0.12: ghost text by vim.lsp.inline_completion. Neovim 0.11: the ordinary completion menu.
local api = vim.api
local M = {}

---@class maskstore.Options
---@field cmd? string[] whole command line; the fields that become flags are then ignored
---@field path? string the executable, default 'maskstore' from PATH
---@field model? string GGUF file
---@field cache_dir? string
---@field threads? integer
---@field max_context? integer tokens
---@field strategy? string
---@field deadline_ms? integer 0: none
---@field log? string file
---@field settings? table sent to the server as the section `maskstore`
---@field accept_key? string|false takes the ghost text, else does what the key did before; default '<Tab>'
---@field complete_key? string|false opens the menu where there is no ghost text; default '<C-Space>'

-- Option to flag, in the order in which they appear on the command line.
local FLAGS = {
  { 'model', '--model' },
  { 'cache_dir', '--cache-dir' },
  { 'threads', '--threads' },
  { 'max_context', '--max-context' },
  { 'strategy', '--strategy' },
  { 'deadline_ms', '--deadline-ms' },
  { 'log', '--log' },
}
local PATHS = { model = true, cache_dir = true, log = true }

---@type maskstore.Options
local options = { path = 'maskstore', accept_key = '<Tab>', complete_key = '<C-Space>' }

--- The command line for these options; `~` and `$VAR` in file names are expanded, as there is no shell between.
---@param opts maskstore.Options
---@return string[]
function M.command(opts)
  if opts.cmd then
    return opts.cmd
  end
  local cmd = { vim.fn.expand(opts.path or 'maskstore'), 'serve', '--stdio' }
  for _, entry in ipairs(FLAGS) do
    local name, flag = entry[1], entry[2]
    if opts[name] ~= nil then
      local value = tostring(opts[name])
      vim.list_extend(cmd, { flag, PATHS[name] and vim.fn.expand(value) or value })
    end
  end
  return cmd
end

--- Options in force, for the health check.
function M.options()
  return options
end

function M.has_ghost_text()
  return vim.lsp.inline_completion ~= nil
end

-- Start and end column of a vim.Range that lies on one row, else nil. Its fields were renamed while 0.12 was made.
local function range_columns(range)
  local first_row = range.start_row or range.start.row
  local last_row = range.end_row or range.end_.row
  if first_row ~= last_row then
    return nil
  end
  return first_row, range.start_col or range.start.col, range.end_col or range.end_.col
end

-- Replaces row:first..last by text and leaves the cursor behind it.
local function put_text(bufnr, row, first, last, text)
  local lines = vim.split(text, '\n', { plain = true })
  api.nvim_buf_set_text(bufnr, row, first, row, last, lines)
  local column = #lines[#lines] + (#lines == 1 and first or 0)
  api.nvim_win_set_cursor(0, { row + #lines, column })
end

-- Columns first..last that `text` replaces, given that the cursor may have moved on since the request: Neovim 0.12 asks
-- 200 ms after the last key and keeps showing the older item meanwhile. Taken as it is, the keys typed since would stay
-- behind the text. nil where the item no longer fits what stands before the cursor.
local function columns_now(item, ours, cursor)
  local row, first, last = range_columns(item.range)
  local before = row == cursor[1] - 1 and api.nvim_get_current_line():sub(first + 1, cursor[2])
  if not before or cursor[2] < first or not vim.startswith(item.insert_text, before) then
    return nil
  end
  -- Our server's ranges begin at the cursor of the request, so all of `before` was typed since, and a closing bracket
  -- that the text replaces has moved on by as much. Of other servers that is not known.
  return first, ours and last + #before or math.max(last, cursor[2])
end

-- Puts the item's text into the current buffer and runs its command. False: it no longer fits, and nothing was done.
local function accept_item(item)
  local bufnr = api.nvim_get_current_buf()
  local client = vim.lsp.get_client_by_id(item.client_id)
  local text = item.insert_text
  if type(text) ~= 'string' then
    vim.snippet.expand(text.value)
  elseif not item.range then
    api.nvim_paste(text, false, 0)
  else
    local cursor = api.nvim_win_get_cursor(0)
    local first, last = columns_now(item, client ~= nil and client.name == 'maskstore', cursor)
    if not first then
      return false
    end
    put_text(bufnr, cursor[1] - 1, first, last, text)
  end
  if item.command and client then
    client:exec_cmd(item.command, { bufnr = bufnr })
  end
  return true
end

-- What `key` did in insert mode before we mapped it, as a function for an <expr> mapping. Neovim itself maps <Tab> to
-- jump through snippets; a person may have a mapping of their own.
local function previous_mapping(key)
  local map = vim.fn.maparg(key, 'i', false, true)
  if map.callback and map.expr == 1 then
    return map.callback
  elseif map.callback then
    return function()
      vim.schedule(map.callback)
      return ''
    end
  elseif map.rhs and map.expr == 1 then
    return function()
      return api.nvim_eval(map.rhs)
    end
  end
  return function()
    return map.rhs or key
  end
end

local function map_accept(bufnr, key)
  if vim.b[bufnr].maskstore_accept_key then
    return -- a second attach, after a restart of the server
  end
  vim.b[bufnr].maskstore_accept_key = key
  local otherwise = previous_mapping(key)
  local function on_accept(item)
    if not accept_item(item) then
      api.nvim_feedkeys(vim.keycode(key), 'n', false)
    end
  end
  vim.keymap.set('i', key, function()
    if vim.lsp.inline_completion.get({ on_accept = on_accept }) then
      return ''
    end
    return otherwise()
  end, { buffer = bufnr, expr = true, desc = 'maskstore: take the ghost text' })
end

-- The menu inserts only the first word of an item's text edit (Neovim cuts it at a blank). When one of our items is
-- chosen, put the whole text in its place.
local function finish_menu_item(bufnr, client_id)
  local done = vim.v.completed_item
  local lsp = vim.tbl_get(done or {}, 'user_data', 'nvim', 'lsp')
  if not lsp or lsp.client_id ~= client_id or vim.v.event.reason ~= 'accept' then
    return
  end
  local edit = lsp.completion_item.textEdit
  local client = vim.lsp.get_client_by_id(client_id)
  if not edit or not client then
    return
  end
  local start = (edit.range or edit.insert).start
  local cursor = api.nvim_win_get_cursor(0)
  local line = api.nvim_get_current_line()
  if start.line ~= cursor[1] - 1 then
    return
  end
  local first = vim.str_byteindex(line, client.offset_encoding, start.character, false)
  put_text(bufnr, start.line, first, cursor[2], edit.newText)
end

local function enable_menu(client, bufnr)
  -- We offer one item, and without these Neovim would insert it at once instead of showing it.
  vim.bo[bufnr].completeopt = 'menuone,noselect,popup'
  vim.lsp.completion.enable(true, client.id, bufnr, { autotrigger = true })
  api.nvim_create_autocmd('CompleteDone', {
    group = api.nvim_create_augroup('maskstore.menu.' .. bufnr, { clear = true }),
    buffer = bufnr,
    callback = function()
      finish_menu_item(bufnr, client.id)
    end,
  })
  if options.complete_key then
    vim.keymap.set('i', options.complete_key, function()
      vim.lsp.completion.get()
    end, { buffer = bufnr, desc = 'maskstore: complete here' })
  end
end

local function on_attach(event)
  local client = vim.lsp.get_client_by_id(event.data.client_id)
  if not client or client.name ~= 'maskstore' then
    return
  end
  if not M.has_ghost_text() then
    enable_menu(client, event.buf)
    return
  end
  vim.lsp.inline_completion.enable(true, { bufnr = event.buf })
  if options.accept_key then
    map_accept(event.buf, options.accept_key)
  end
end

--- Starts maskstore in every Python buffer, open ones included. A second call replaces the options.
---@param opts? maskstore.Options
function M.setup(opts)
  if vim.fn.has('nvim-0.11') == 0 then
    vim.notify('maskstore needs Neovim 0.11 or newer', vim.log.levels.ERROR)
    return
  end
  options = vim.tbl_extend('force', options, opts or {})
  local config = { cmd = M.command(options) }
  if options.settings then
    config.settings = { maskstore = options.settings }
  end
  if vim.fn.executable(config.cmd[1]) == 0 then
    vim.notify(
      ("maskstore: cannot run '%s'. Build it (tools/run) and set path in setup{}, or put it on PATH."):format(config.cmd[1]),
      vim.log.levels.ERROR
    )
    return
  end
  api.nvim_create_autocmd('LspAttach', {
    group = api.nvim_create_augroup('maskstore', { clear = true }),
    callback = on_attach,
  })
  vim.lsp.config('maskstore', config)
  vim.lsp.enable('maskstore')
end

return M
