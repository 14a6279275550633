// Package wire sends requests to model servers over HTTP, for the packages that know the servers'
// formats.
//
// An Exchange is one request whose answer is being read. Each of its phases (connecting, waiting
// for the first token, waiting for the next) has a time limit. Every failure becomes one error of
// package llm.
//
// Ending the context ends the request at once. The key appears in no error and no log, and server
// messages in errors are shortened and printable. Redirects are not followed, because the key would
// be sent along. A failed request is repeated as package retry says. The package reads neither the
// key nor a proxy from the environment.
package wire
