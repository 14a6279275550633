// Package wire asks a model's server over HTTP, for the packages that know what it says.
//
// The one idea: an Exchange is one request whose answer is being read, and every phase of it (connecting, the first
// token, each further one) has a time limit. Whatever breaks it off becomes one error of package llm.
//
// Guarantees: ending the context ends the request at once; the key is in no error and no log, and what a server says
// in an error is shortened and printable; redirects are not followed, since the key would go with them; a request
// that failed is repeated as package retry says. It does not read the environment: not the key, not the proxy.
package wire
