package cli

import (
	"context"
	"fmt"
	"html"
	"os/exec"
	"runtime"

	"github.com/spf13/cobra"

	"symbio/cmd/symbio/internal/command"
	"symbio/internal/security/private"
	symbiov1 "symbio/proto/symbio/v1"
)

// cmdDashboard returns the command dashboard. It makes the node serve the dashboard and prints an
// address that opens it once, within two minutes. For a person at a screen it opens the browser,
// too.
func cmdDashboard(env *command.Env) *cobra.Command {
	var r symbiov1.DashboardRequest
	var noOpen bool
	cmd := &cobra.Command{
		Use:  "dashboard",
		Args: command.NoArgs,
		RunE: env.OnNode(func(ctx context.Context, client symbiov1.ControlClient, _ []string) error {
			reply, err := client.Dashboard(ctx, &r)
			if err != nil {
				return err
			}
			if env.JSON {
				return env.PrintJSON(reply)
			}
			if reply.GetFingerprint() != "" {
				env.Notef("the browser says that it does not know the certificate. It is the right one if its SHA-256 fingerprint is\n%s", reply.GetFingerprint())
			}
			if err := env.Printf("%s\n", reply.GetUrl()); err != nil || noOpen || !hasScreen(env) {
				return err
			}
			if err := openBrowser(ctx, env, client, reply.GetUrl()); err != nil {
				env.Notef("the browser was not opened: %v; open the address yourself", err)
			}
			return nil
		}),
	}
	cmd.Flags().BoolVar(&noOpen, "no-open", false, "print the address and do not open the browser")
	cmd.Flags().BoolVar(&r.Lan, "lan", false, "serve other machines, too, by TLS with the certificate of the cluster")
	cmd.Flags().StringVar(&r.Listen, "listen", "", "`IP:PORT` to serve at, if the dashboard is not served yet (default 127.0.0.1, with --lan the address of the node, and a free port)")
	return cmd
}

// hasScreen reports whether a person is at the terminal of a machine with a screen.
func hasScreen(env *command.Env) bool {
	return env.OutIsTerminal && (runtime.GOOS == "darwin" || env.Getenv("DISPLAY") != "" || env.Getenv("WAYLAND_DISPLAY") != "")
}

// openBrowser opens a page that leads to the address. The address itself would be among the
// arguments of a process, where other users of the machine could read it and be faster. The page is
// in the directory of the node, which the commands of agents cannot see.
func openBrowser(ctx context.Context, env *command.Env, client symbiov1.ControlClient, url string) error {
	node, err := client.Status(ctx, &symbiov1.StatusRequest{})
	if err != nil {
		return err
	}
	file := env.State().Node(node.GetName()).LoginPage()
	page := fmt.Sprintf(`<!DOCTYPE html><meta charset="utf-8"><meta http-equiv="refresh" content="0; url=%s">`, html.EscapeString(url))
	if err := private.Replace(file, []byte(page)); err != nil {
		return err
	}
	opener := "xdg-open"
	if runtime.GOOS == "darwin" {
		opener = "open"
	}
	// The opener may live as long as the browser, so it is not waited for.
	cmd := exec.Command(opener, file)
	if err := cmd.Start(); err != nil {
		return err
	}
	return cmd.Process.Release()
}
