// Package anthropic uses the Messages API: Anthropic's own service, and servers that are compatible
// with it.
//
// An answer is a list of blocks (text, thoughts, calls). The history keeps the order in which the
// model made them, because the provider checks that it gets its thoughts back at their position.
// Thoughts with their signatures go back to the model that produced them, and to no other.
//
// A structured answer (llm.Output) is a tool that the model has to call; the arguments of that call
// are the text of the answer. The request marks the system prompt and the last message for the
// provider's cache, so that follow-up requests read the beginning from there.
//
// The guarantees are those of package wire. Memory is bounded, and any number of goroutines may use
// one Model. A Model keeps no conversation; see package llm.
package anthropic
