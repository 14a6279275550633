// Package scripted is a language model that answers from a file, for tests, demonstrations and
// machines without a model.
//
// The one idea: a script is a list of turns, and each request is answered by the first turn whose
// match fits it. The model remembers nothing: everything comes from the Request. So one script
// serves any number of conversations at once, and parents and their sub-agents alike. A request
// that no turn fits is an llm.ErrDrift that says what was asked.
//
// The same request always gets the same answer, ids of calls included. A text is streamed in four
// pieces at most. A script reads texts only: images are described to it in words. A model that
// needs more than a script is an llm.Func.
//
// # The file
//
//	name: survey                     # for people; default: the file's name without its extension
//	turns:
//	- name: plan                     # for errors; default: its number, from 1
//	  match:                         # all conditions must hold; without any, the turn always fits
//	    system: 'regexp'             # matches Request.System
//	    user: 'survey (?P<dir>\S+)'  # matches the text of the last user message
//	    turn: 0                      # the number of assistant messages after it
//	    after: [Glob]                # exactly these tools have results in the last message, in any
//	                                 # order and however many each; [] means that there are no results
//	    result: 'total (?P<n>\d+)'   # matches the text of one of these results
//	  text: 'I look at {{dir}}.'
//	  calls:
//	  - {tool: Glob, args: {pattern: '{{dir}}/*', limit: 10}}
//	  stop: length                   # end, tool_calls, length, filter; default: tool_calls if there are calls, else end
//	  usage: {input: 100, output: 20}  # tokens; default: one for each four bytes
//	- name: busy
//	  stall: 2s                      # wait before the first piece
//	  error: {status: 429, retry_after: 1s, message: slow down}   # an *llm.Error of that HTTP status, after text and calls
//
// Regular expressions are Go's. Unknown keys are errors of Parse, with their line.
//
// # Placeholders
//
// The text, and each string in args, may hold placeholders:
//
//	{{user}}     the text of the last user message
//	{{system}}   the system prompt
//	{{turn}}     the number of assistant messages after the last user message
//	{{result}}   the texts of the results in the last message, a line break between them
//	{{NAME}}     what the group (?P<NAME>…) of a pattern in the turn's match found
//
// Any other name between {{ and }} is an error of Parse.
package scripted
