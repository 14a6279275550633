// Package scripted is a language model that answers from a file, for tests, demonstrations and
// machines without a model.
//
// The one idea: a script is a list of turns, and each request is answered by the first turn whose
// match fits what the model was given. The model remembers nothing; everything comes from the
// Request. So one script serves any input, any number of conversations at once, and parents and their
// sub-agents alike. When no turn fits it fails with a *DriftError that shows the difference.
//
// The same request always gets the same answer, ids of calls included. A text is streamed in four
// pieces at most. Nothing is delayed unless the script says stall. Templates are bounded: 4 MiB of
// output each, a budget of work for each answer, and they stop when ctx ends. They reach no file, no
// environment, no clock and no network.
//
// # The file
//
//	name: survey                     # for people; default: what the file is called
//	define:                          # templates for {{template "x" .}} and {{include "x" .}}
//	  total: '{{ sum (pluck "n" .) }}'
//	turns:
//	- name: plan                     # for errors; default: its number, from 1
//	  match:                         # all conditions must hold; none at all holds always
//	    system: 'regexp'             # found in Request.System
//	    user: 'survey (?P<dir>\S+)'  # found in the text of the last user message
//	    task: '^survey'              # found in the text of the user message that began the exchange
//	    turn: 0                      # assistant messages after it: a number, or a list of them
//	    after: [Glob]                # exactly these tools have results in the last message, in any
//	                                 # order and however many each; [] means no results there
//	    tools: [Write]               # these tools, at least, are offered
//	    result: 'regexp'             # found in the text of one of the last message's results
//	    failed: false                # whether one of those results is an error
//	  text: 'template'
//	  calls:
//	  - tool: Glob
//	    args: {pattern: '*', dir: '{{ .Match.dir }}', limit: 10, depth: !json '{{ add .Turn 1 }}'}
//	  - for: '{{ json (lines (first .Results).text) }}'
//	    tool: send_signal            # one call for each item
//	    args: '{{ json (dict "to" .Item "n" .Index) }}'
//	  stop: length                   # end, tool_calls, length, filter; default: tool_calls if there are calls, else end
//	  usage: {input: 100, output: 20}  # tokens; default: a token for each four bytes
//	- name: busy                     # what goes wrong, for tests; comes after the turn's text and calls
//	  stall: 2s                      # wait before the first piece
//	  error: {status: 429, retry_after: 1s, message: slow down}   # as an *llm.Error of that status
//	  # cut: true                    # or: the answer breaks off (llm.ErrCut)
//	  # malformed: true              # or: it cannot be read (llm.ErrMalformed)
//
// Regular expressions are Go's. Their named groups are in .Match, those of system, user, task and result
// together. Unknown keys, unknown functions, and templates that cannot be read are errors of Parse,
// with the line.
//
// What a user says while the model works stands behind results of tools. It is the last user message from then on, and
// turn, after, result, failed and the results in templates count from it. In a turn whose match has task they count
// from the message that began the exchange, as if nothing had been said; .Said has what was. The first message after
// an exchange that was ended behind results of tools cannot be told from one said meanwhile, and counts as that.
//
// In args each string is a template that renders a string; numbers, booleans and null are
// themselves; a string with the tag !json is a template that renders any JSON value. args may also be
// one template that renders a JSON object. raw, in place of args, renders what a careless model might
// write: what is not JSON reaches the tool as a JSON string, as from a real model (llm.Args). for
// renders a JSON array.
//
// YAML keeps the line breaks of a block scalar (text: |), and a template that starts with {{ must
// stand in quotes or in a block.
//
// # Templates
//
// They are text/template, with {{- and -}}, variables, if, range, with. Dot is:
//
//	.User .Task .System  texts: the last user message, the one that began the exchange, the system prompt
//	.Said             texts that the user said after that, a list
//	.Match.name       the named groups; naming one that is not there is an error
//	.Turn             assistant messages since the last user message, or the task
//	.Tools            names of the tools offered
//	.Results          the results in the last message
//	.Item .Index      in for: the item and its number from 0
//
// A result is a map {tool, id, text, failed, args}; args are those of its call, decoded. Values are
// what JSON knows, so (first .Results).args.path and get "args.path" both work. A list or a map that
// is written out is JSON; nothing is written for null. Numbers stay whole as long as they can;
// text that looks like a number serves as one (regexp groups do).
//
// Functions. What is worked on comes last, so that pipelines work: {{ .User | lines | len }}. Only
// append, slice and the arithmetic take it first.
//
//	results "Glob" …        results of these tools since the last user message, or the task, in order; all without a name
//	include "name" v        a template of define, with v as its dot, as text
//	json v  fromJson s  string v  default d v (d if v is null, empty, 0 or false)
//
//	add a b…  sub a b  mul a b…  div a b  mod a b     div of whole numbers truncates
//	min a b…  max a b…  (or of one list)  sum list  round decimals x  int x  float x
//
//	lines s  split sep s  fields s  join sep list  replace old new s  trim s  trimPrefix p s  trimSuffix p s
//	upper s  lower s  indent n s  repeat n s  truncate n s  count sub s  printf format v…
//	contains sub s  hasPrefix p s  hasSuffix p s  base path  ext path  dir path
//
//	regexMatch re s  regexFind re s (text or "")  regexFindAll re s (list of texts)
//	regexGroups re s (map, by number and by name)  regexGroupsAll re s (list of those)  regexReplace re new s ($1, ${name})
//
//	list v…  append list v…  concat list list…  flatten list  seq from to  len v
//	first list  last list  (null of an empty one)  slice list from [to]  (also of a text; never out of range)
//	reverse list  sort list  sortBy key list  uniq list  has v list  (or: has key map)
//	pluck key list  where key v list  whereNot key v list  whereMatch key re list
//	groupBy key list        list of {key, items}, in the order of first appearance
//
//	dict k v…  get key map  set key v map (a copy)  merge map map…  keys map  values map (both by key)
//
// A key may be a path with dots, list indexes included: "args.path", "0.text". Besides these there
// are text/template's own eq ne lt le gt ge and or not index print.
package scripted
