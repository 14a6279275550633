// Package chat lets nodes of a fleet use each other's models: what the capability model.chat takes
// and gives, Serve for the node that has a model, and Model for the one that uses it.
//
// The one idea: a call has the whole request and its reply the whole answer, so that any caller of
// capabilities can use it. Callers of a streaming call also get the text while it is written, as
// lines of JSON. Errors of a model's server stay on its node, except those to which the caller can
// react.
//
// Guarantees: a Model passes the suite of package llmtest; what goes wrong has the same kind at
// both ends; ending the context ends the call, and with it the request at the provider; nothing
// that the other node says is believed beyond what an answer may be. It knows no community and no
// wire: calls are functions.
package chat
