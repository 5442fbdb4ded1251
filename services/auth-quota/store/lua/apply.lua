-- A run: reads what its operations need, does them one after the other, and writes what has changed.
-- ARGV: relay session, default limits of account and IP per minute and of an account's calls at once, process with its
-- runs (see state.lua), then name and arguments of each operation. The answer begins with the generation, behind it by
-- spaces the leases that the relay process is to give back, and the time (ms); with "" alone when there is no
-- generation, and nothing was done. Of each operation follows the verdict times 4, plus 1 when a number follows, plus 2
-- when a text does: both ends pay for every item of an answer, and most operations say their verdict alone.

-- An operation on a call waits behind an earlier one on the same call that needs data first: their order is kept.
local ofCalls = {
  reserve = true, extend = true, checkpoint = true, restore = true, settle = true, ['settle-own'] = true,
  release = true, lookup = true,
  draw = true, ['draw-proven'] = true, lease = true, ['release-lease'] = true,
  -- What is known of these is in a book.
  ['settle-leased'] = 'book', ['settle-leased-proven'] = 'book', ['post-leased'] = 'book', ['post-leased-behind'] = 'book',
}
local fetchCosts

-- Which argument of an operation names its account, so that one that has left is answered MOVED (M11). It may be empty: a
-- relay of the version before names none.
local accountAt = {
  authorize = 3, reserve = 5, extend = 4, checkpoint = 4, restore = 2, settle = 2, ['settle-own'] = 2, release = 2,
  lookup = 2, draw = 3, ['draw-proven'] = 3, lease = 4, ['release-lease'] = 2, ['settle-leased'] = 3,
  ['settle-leased-proven'] = 3, ['post-leased'] = 2, ['lookup-leased'] = 1, balance = 1, spending = 2,
  ['account-settings'] = 1, ['key-settings'] = 2,
}

local function hasLeft(name, first)
  local at = accountAt[name]
  local id = at and ARGV[first + at - 1] or ''
  return id ~= '' and account(id).moved == 'gone'
end

local function find(name)
  if not operations[name] and string.find(name, 'leased', 1, true) then
    fetchCosts = addLeasedOperations()
  end
  if not operations[name] then
    addFurtherOperations()
  end
  if not operations[name] then
    addLeaseOperations()
  end
  if not operations[name] then
    addRareOperations()
  end
  return operations[name]
end

local function answer(name, first)
  local found = find(name)
  local count, operation = found[1], found[2]
  local rid = ofCalls[name] and ARGV[first]
  if rid and waiting[rid] then
    return verdicts.NEED, 0, nil, count
  end
  if hasLeft(name, first) then
    return verdicts.MOVED, 0, nil, count
  end
  local verdict, number, text = operation(unpack(ARGV, first, first + count - 1))
  if rid and verdict == verdicts.NEED then
    waiting[rid] = true
  end
  return verdict, number, text, count
end

-- Readers of replies sum up digits in doubles and go wrong just below 2^53; large amounts travel as text.
local function reply(number)
  return number < 1000000000000000 and number or int(number)
end

-- Which calls the operations are about, so that they are read together.
local function ridsAsked()
  local rids, count = {}, 0
  local at, last = firstOperation, #ARGV
  while at <= last do
    local name = ARGV[at]
    local found = find(name)
    local kind = ofCalls[name]
    if kind == 'book' then
      local isSettle = name == 'settle-leased' or name == 'settle-leased-proven'
      count = count + 1
      rids[count] = askOfBook(ARGV[at + (isSettle and 4 or 3)], ARGV[at + 1])
      if isSettle and ARGV[at + 2] ~= '' then
        count = count + 1
        rids[count] = ARGV[at + 2]
      end
    elseif kind or name == 'post' then
      count = count + 1
      rids[count] = ARGV[at + 1]
    end
    if name == 'draw' or name == 'draw-proven' then
      count = count + 1
      rids[count] = ARGV[at + 2]
    end
    at = at + 1 + found[1]
  end
  return rids
end

fetchCalls(ridsAsked())
if fetchCosts then
  fetchCosts()
end
local answers, answered = { '', nowMs }, 2
local at, last = firstOperation, #ARGV
while at <= last do
  if sumUp and ofCalls[ARGV[at]] ~= 'book' then
    sumUp()
  end
  local verdict, number, text, count = answer(ARGV[at], at + 1)
  answered, at = answered + 1, at + 1 + count
  local tagAt, tag = answered, verdict * 4
  if number and number ~= 0 then
    tag, answered = tag + 1, answered + 1
    answers[answered] = reply(number)
  end
  if text then
    tag, answered = tag + 2, answered + 1
    answers[answered] = text
  end
  answers[tagAt] = tag
end
if sumUp then
  sumUp()
  flushBooks()
end
flushCalls()
flushRates()
flushSums()
answers[1] = service.generation
if readService[8] then
  answers[1] = answers[1] .. ' ' .. readService[8]
end
return answers
