// Package openai speaks the chat-completions wire: OpenAI's own service, and every server that is
// more or less compatible with it (Ollama, llama.cpp, vLLM, LM Studio, gateways).
//
// The one idea: be strict about what an answer is, and lenient about how it is written. Servers omit
// the index of a call's fragments or give all calls the same one, send calls whole, repeat ids or
// leave them out, send arguments as an object, end without [DONE], or answer a streaming request with
// one JSON document; all of that is read. But an answer without an end is llm.ErrCut, and what cannot
// be an answer is llm.ErrMalformed.
//
// Guarantees: a request is repeated only before the server has begun to answer, so nothing is ever
// yielded twice; every phase (connecting, the first token, each further one) has a time limit; ending
// the context ends the request at once; memory is bounded; the key is in no error and no log, and what
// a server says in an error is shortened and printable. Any number of goroutines may use one Model.
//
// It does not read the environment: not the key, not the proxy. It does not follow redirects, since
// the key would go with them. It keeps no conversation; see package llm.
package openai
