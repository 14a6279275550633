// Package ollama uses the chat API of Ollama (POST api/chat), which streams one JSON document on each
// line.
//
// Ollama's OpenAI-compatible API would do but for one thing: it cannot set the context window, and a
// model that is loaded with a smaller one forgets the beginning of the request without a word. Here each
// request sets the window (num_ctx): the configured one, else what Ollama says of the model, up to
// MaxWindow. A request that does not fit is an error, and a conversation is then shortened.
//
// The API has no choice of tools: for "none" no tools are sent, and a forced call is llm.ErrInvalid.
//
// How long a model stays loaded (keep_alive) is the server's setting. The guarantees are as in
// package wire. Memory is bounded, and any number of goroutines may use one Model.
package ollama
