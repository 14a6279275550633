// Package anthropic uses the Messages API: Anthropic's own service, and servers that are compatible
// with it.
//
// An answer is a list of blocks (text, thoughts, calls). The history keeps the order in which the
// model made them, because the provider checks that it gets its thoughts back at their position.
// Thoughts with their signatures go back to the model that produced them, and to no other.
//
// Models differ in how they are asked for thoughts. Those of today decide themselves how long they
// think, and take an effort (adaptive thinking); older ones take a number of tokens. The model's name
// decides which form is tried first. A form that the server refuses is not asked for again, and the
// request is repeated in another (see refusals).
//
// A structured answer (llm.Output) is asked for by its schema, or from older models by a tool that the
// model has to call; the arguments of that call are then the text of the answer. The request marks the
// tools, the system prompt and the last two messages of the user for the provider's cache, so that
// each request reads the one before from there.
//
// A temperature is at most 1 in this API. It is left out beside thoughts, and for models that refuse it,
// as those from Opus 4.7 on do. A request that forces a call is sent without thoughts.
//
// The guarantees are as in package wire. Memory is bounded, and any number of goroutines may use
// one Model. A Model keeps no conversation; see package llm.
package anthropic
