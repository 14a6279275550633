// Package anthropic speaks the Messages wire: Anthropic's own service, and servers that are
// compatible with it.
//
// The one idea: an answer is a list of blocks (text, thoughts, calls), and the order in which a
// model made them is kept in the history, because the provider checks that it gets its thoughts
// back where they stood. Thoughts with their signatures go back to the model that thought them, and
// to no other.
//
// Guarantees: those of package wire, and memory is bounded. Any number of goroutines may use one
// Model. A form of the answer (llm.Output) is a tool that the model has to call; what it calls it
// with is the answer's text. Answers to follow-up requests are read from the provider's cache where
// it has them: the request marks the system prompt and the last message. It keeps no conversation;
// see package llm.
package anthropic
