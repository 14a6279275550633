// Package openai uses the APIs of OpenAI: the Responses API for OpenAI's own service, and chat completions
// for the servers that are more or less compatible with it (Ollama, llama.cpp, vLLM, LM Studio, gateways).
// A server that says that a model has only the other API is asked that way from then on.
//
// Data that a server sends with a message or a call in fields of its own (thoughts, signatures) is kept in
// llm.Thinking.Raw, and sent back unchanged to the same model. The Responses API is used without its store:
// the server keeps nothing, and thoughts are sent back in encrypted form.
//
// The Responses API has no stop words: a request with some is sent to chat completions. A temperature that a
// model refuses is left out; a refusal of stop words or of a choice of tools is an error.
//
// The package is strict about what an answer is, and lenient about how it is written. Servers omit
// the index of a call's fragments or give all calls the same one, send calls whole, repeat ids or
// leave them out, send arguments as an object, end without [DONE], or answer a streaming request
// with one JSON document; the package reads all of that. But an answer without an end is
// llm.ErrCut, and text that cannot be an answer is llm.ErrMalformed.
//
// The guarantees are as in package wire. Memory is bounded, and any number of goroutines may use
// one Model. If a server refuses a part of a request, such as stream_options, response_format or an
// effort, the request is repeated without it; see refusals. A Model keeps no conversation; see package llm.
package openai
