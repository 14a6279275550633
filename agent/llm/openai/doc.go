// Package openai speaks the chat-completions wire: OpenAI's own service, and every server that is
// more or less compatible with it (Ollama, llama.cpp, vLLM, LM Studio, gateways).
//
// The one idea: be strict about what an answer is, and lenient about how it is written. Servers omit
// the index of a call's fragments or give all calls the same one, send calls whole, repeat ids or
// leave them out, send arguments as an object, end without [DONE], or answer a streaming request with
// one JSON document; all of that is read. But an answer without an end is llm.ErrCut, and what cannot
// be an answer is llm.ErrMalformed.
//
// Guarantees: those of package wire, and memory is bounded. Any number of goroutines may use one
// Model. A server that does not know stream_options or response_format is asked without. It keeps
// no conversation; see package llm.
package openai
