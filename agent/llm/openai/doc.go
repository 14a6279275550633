// Package openai uses the chat-completions API: OpenAI's own service, and the servers that are more
// or less compatible with it (Ollama, llama.cpp, vLLM, LM Studio, gateways).
//
// The package is strict about what an answer is, and lenient about how it is written. Servers omit
// the index of a call's fragments or give all calls the same one, send calls whole, repeat ids or
// leave them out, send arguments as an object, end without [DONE], or answer a streaming request
// with one JSON document; the package reads all of that. But an answer without an end is
// llm.ErrCut, and text that cannot be an answer is llm.ErrMalformed.
//
// The guarantees are those of package wire. Memory is bounded, and any number of goroutines may use
// one Model. If a server does not know stream_options or response_format, the request is repeated
// without them. A Model keeps no conversation; see package llm.
package openai
