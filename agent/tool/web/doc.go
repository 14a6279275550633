// Package web holds the tools by which an agent reads a page of the web and searches it.
//
// The one idea: what is checked is the address that is dialled, not the name that was asked for. A
// name may turn out to be this machine, a redirect may lead into the local network, a proxy may be
// told by the environment: each connection is looked at when its final address is known, and
// refused unless the verdict on the call reaches it (security.md 6; endpoint.AllowList). A redirect
// to another host is not followed but handed to the model, whose next call is judged as any other.
//
// A page is text from a stranger: it is bounded in size and time, made into Markdown, and marked as
// what it is. A search is made by a Searcher that the configuration names; it may be anywhere,
// explainStatus no model chose it. Its results are a stranger's text, too.
//
// It keeps no cookies, sends no referrer, runs no script, and looks into no other page.
package web
