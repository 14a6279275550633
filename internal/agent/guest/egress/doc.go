// Package egress is the way out of a box that has no network: an HTTP proxy with a list of the hosts that it connects to.
//
// The one idea: a program in the box can only ask for a connection to a name (CONNECT NAME:PORT), and the node resolves the
// name, checks the address that it dials, and copies bytes. The program has no resolver and no socket of the network, so
// that there is no way around the list.
//
// Guarantees: only the names of the list are resolved. A name is dialled at a public address only, which is checked right
// before each connection is made; a private address only if the list has that address with its port. Each connection is
// logged once, with its bytes. Memory is bounded: by 64 connections with 64 KiB each.
//
// The proxy does not look into a connection: it does not know which path is requested, nor whether the server of a name
// forwards to other places.
package egress
