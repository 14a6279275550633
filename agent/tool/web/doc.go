// Package web has the tools by which an agent reads web pages (WebFetch) and searches the web
// (WebSearch).
//
// The check is about the address that is dialled and not about the name in the URL: a name may
// resolve to this machine, a redirect may lead into the local network, and the environment may name
// a proxy. Each connection is checked when its final address is known, and refused unless the
// verdict on the call allows that address. A redirect to another
// host is not followed but returned to the model, whose next call is judged like any other.
//
// The text of a page is foreign and must not be trusted. It is limited in size and time, converted to
// Markdown, and marked as data. A search is made by a Searcher that the configuration names; it may
// be at any address, because no model chose it. The texts of its results are foreign, too.
//
// The package keeps no cookies, sends no Referer header, runs no scripts, and loads nothing that a
// page embeds.
package web
