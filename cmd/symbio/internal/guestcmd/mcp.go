package guestcmd

import (
	"io"
	"net"
	"sync"

	"github.com/spf13/cobra"

	"symbio/cmd/symbio/internal/command"
)

// MCP returns the hidden command guest-mcp, which an agent that is another program starts as its MCP server: it connects its
// standard input and output to the server of the node at SOCKET. It ends when the node ends the connection.
func MCP(env *command.Env) *cobra.Command {
	return &cobra.Command{
		Use:    "guest-mcp SOCKET",
		Hidden: true,
		Args:   command.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			conn, err := net.Dial("unix", args[0])
			if err != nil {
				return command.Unavailable(err)
			}
			server := conn.(*net.UnixConn)
			defer server.Close()
			var sending sync.WaitGroup // not waited for: the input may never end
			sending.Go(func() {
				io.Copy(server, env.In)
				server.CloseWrite()
			})
			_, err = io.Copy(env.Out, server)
			return err
		},
	}
}
