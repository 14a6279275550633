// Package guestcmd has the hidden commands that run inside the box of an agent that is another program: guest-box gives
// the program its way to the proxy of the node, and guest-mcp the MCP server of the node.
//
// They are not trusted, since the program could change them: the proxy and the MCP server check each request.
package guestcmd
