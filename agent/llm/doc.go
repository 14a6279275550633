// Package llm defines the interface between agents and language models: a Model streams an answer
// to a Request.
//
// The one idea: a Model keeps nothing between requests. The whole conversation is in the Request, so
// one Model serves any number of agents at once, and the work of a model can be replayed from its
// requests.
//
// Guarantees, held by the suite in llmtest for every implementation: pieces of text come in order;
// a call is yielded whole, with an id that no other call of the conversation has, and with arguments
// that are valid JSON; the last piece, and only that, says why the answer stopped; after an error
// nothing more is yielded; a stream that ended without its last piece is an error and never an
// answer.
//
// Implementations are in packages below this one: openai for OpenAI and chat-completions servers, anthropic
// for Messages servers, ollama for Ollama's own API, chat for models of other nodes, scripted for answers from a file; Func is a
// Go function. Package wire has the HTTP code that the wires share, retry asks again, or the next model of a list,
// replay records and replays exchanges, and provider picks a model by name or by environment
// variables; catalog knows windows and prices. This package imports none of them. It also has Prices
// (the cost of answers) and Generate (answers as Go values). It does not run tools, and does not
// shorten conversations.
package llm
