// Package dashboard serves the community to the browser of the person who runs
// the node: machines, agents, approvals and what else the command line shows.
//
// The one idea: a page is a function that returns data and a template that
// shows it. The server renders whole pages, also for a page that is open: it
// sends the page again whenever the community changes, and the script of the
// browser takes over the differences. So every page works without the script,
// and no page has code for the browser.
//
// To add a page, write a file with a function that returns a page, such as
// communityPage, write its template templates/NAME.html, which defines "main",
// and add the function to pages. To let a person change something, add an
// action to the page: a form that posts to the address of the page runs the one
// that its field action names. The record of decisions has each action before
// it acts, and one with a question is done only after the person has confirmed
// it.
//
// The dashboard does what a ControlClient lets it do, so it has the permissions
// of the command line. It listens on loopback, or by TLS on one address of the
// LAN. A browser shows a token that can be used once, and gets a cookie for
// it, at a host name that other servers of the machine do not know. Every page may be shown to one session only: none
// is stored by a browser, framed by a site, or has code or styles from outside of this package. A request that acts must
// come from a page of the dashboard.
//
// Text of agents, models, peers and files is hostile. Templates escape it, and
// printable shows what cannot be seen, in all that is sent.
package dashboard
