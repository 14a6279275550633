// Package llm is what an agent needs of a language model: a Model that streams an answer to a Request.
//
// The one idea: a Model keeps nothing between requests. The whole conversation is in the Request, so
// one Model serves any number of agents at once, and what a model did can be replayed from what it
// was given.
//
// Guarantees, held by the suite in llmtest for every implementation: pieces of text come in order;
// a call is yielded whole, with an id that no other call of the conversation has, and with arguments
// that are valid JSON; the last piece, and only that, says why the answer stopped; after an error
// nothing more is yielded; a stream that ended without its last piece is an error and never an
// answer.
//
// Implementations stand below this package: scripted answers from a file (and Func is a Go function), openai speaks the chat-completions wire,
// anthropic the Messages wire, chat uses the models of other nodes. What the wires share is in wire, when to ask again in
// retry, recordings of what was said with servers in replay; provider picks a model by name or by what the environment
// offers. This package imports none of them. Here are also what is made of models: First, a list of them; Prices, what
// their answers cost; Generate, values of Go types. It does not run tools, or cut a conversation that grew too long.
package llm
