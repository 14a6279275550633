package guestcmd

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/net/netutil"

	"symbio/cmd/symbio/internal/command"
)

// ProxySocket is the name of the proxy's socket in the directory of sockets.
const ProxySocket = "proxy.sock"

// maxConnections is how many connections a port has at a time, as many as the proxy takes; more wait.
const maxConnections = 64

// Box returns the hidden command guest-box. It runs a program whose only way to the network is the proxy at
// SOCKETDIR/proxy.sock: it listens on a port of the box's loopback for the proxy, and on each port of --port, whose
// connections the proxy makes to the same port of the machine. Its exit status is the program's.
func Box(*command.Env) *cobra.Command {
	var ports []uint
	cmd := &cobra.Command{
		Use:    "guest-box SOCKETDIR -- COMMAND ARGS...",
		Hidden: true,
		Args:   command.MinArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			socket := filepath.Join(args[0], ProxySocket)
			var serving sync.WaitGroup
			ctx, cancel := context.WithCancel(context.WithoutCancel(cmd.Context())) // signals are the program's
			defer serving.Wait()
			defer cancel()
			proxy, err := listen(ctx, &serving, socket, 0)
			if err != nil {
				return err
			}
			for _, port := range ports {
				if _, err := listen(ctx, &serving, socket, port); err != nil {
					return err
				}
			}
			return run(args[1:], append(os.Environ(), proxyVariables(proxy)...))
		},
	}
	cmd.Flags().UintSliceVar(&ports, "port", nil, "`PORT` of the machine's 127.0.0.1 that the program may reach; may be repeated")
	return cmd
}

// proxyVariables returns the variables by which programs find their proxy; programs differ in their case. Node heeds them
// since version 24, if NODE_USE_ENV_PROXY is set.
func proxyVariables(address string) []string {
	vars := []string{"NODE_USE_ENV_PROXY=1", "NO_PROXY=localhost,127.0.0.1,::1", "no_proxy=localhost,127.0.0.1,::1"}
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"} {
		vars = append(vars, name+"=http://"+address)
	}
	return vars
}

// listen forwards the connections to a port of loopback until ctx ends, and returns its address. Port 0 is a free port, whose
// connections go to the proxy itself; the proxy connects others to the same port of the machine.
func listen(ctx context.Context, serving *sync.WaitGroup, socket string, port uint) (address string, err error) {
	address = fmt.Sprintf("127.0.0.1:%d", port)
	l, err := net.Listen("tcp4", address)
	if err != nil {
		return "", fmt.Errorf("listen in the box: %w", err)
	}
	serving.Go(func() {
		defer context.AfterFunc(ctx, func() { l.Close() })()
		defer l.Close()
		for limited := netutil.LimitListener(l, maxConnections); ; {
			client, err := limited.Accept()
			if err != nil {
				return // the program has ended
			}
			serving.Go(func() {
				defer context.AfterFunc(ctx, func() { client.Close() })()
				defer client.Close()
				target := ""
				if port != 0 {
					target = address
				}
				forward(ctx, client, socket, target)
			})
		}
	})
	return l.Addr().String(), nil
}

// forward copies between a connection in the box and the proxy until the proxy has ended it. With a target it asks the proxy
// for a connection to it first, and without one the program does, or sends a whole request of an http URL, as OpenCode and
// curl do: then the request goes through a connection to its host, because the proxy forwards no requests. An error ends the
// connection, and the program sees that.
func forward(ctx context.Context, client net.Conn, socket, target string) {
	conn, err := net.Dial("unix", socket)
	if err != nil {
		return
	}
	proxy := conn.(*net.UnixConn)
	defer proxy.Close()
	defer context.AfterFunc(ctx, func() { proxy.Close() })()
	said, answers := bufio.NewReader(client), bufio.NewReader(proxy)
	var whole *http.Request
	if target == "" {
		if whole, target, err = wholeRequest(said); err != nil {
			return
		}
	}
	if target != "" {
		fmt.Fprintf(proxy, "CONNECT %s HTTP/1.1\r\nHost: %[1]s\r\n\r\n", target)
		answer, err := http.ReadResponse(answers, &http.Request{Method: http.MethodConnect})
		if err != nil {
			return
		}
		if answer.StatusCode != http.StatusOK {
			if whole != nil {
				answer.Write(client) // the refusal, with its reason
			}
			return
		}
	}
	var sending sync.WaitGroup
	sending.Go(func() {
		to := io.Writer(proxy)
		if whole != nil {
			whole.Write(proxy)
			to = io.Discard // another request may be for another host
		}
		io.Copy(to, said)
		proxy.CloseWrite()
	})
	io.Copy(client, answers)
	client.Close()
	sending.Wait()
}

// wholeRequest reads the request of a client of a proxy. It returns a request of an http URL and its HOST:PORT, after which its
// connection ends; of others, nil, and leaves them where they are.
func wholeRequest(said *bufio.Reader) (r *http.Request, target string, err error) {
	begin, err := said.Peek(len(http.MethodConnect))
	if err != nil || string(begin) == http.MethodConnect {
		return nil, "", err
	}
	if r, err = http.ReadRequest(said); err != nil {
		return nil, "", err
	}
	if r.URL.Scheme != "http" {
		return nil, "", fmt.Errorf("%q is no http URL", r.RequestURI)
	}
	r.Close = true
	r.Header.Del("Proxy-Connection")
	return r, net.JoinHostPort(r.URL.Hostname(), cmp.Or(r.URL.Port(), "80")), nil
}

// run runs the program with the standard streams and the signals of this process, and returns nil or an error with its exit
// status.
func run(argv, env []string) error {
	c := exec.Command(argv[0], argv[1:]...)
	c.Env, c.Stdin, c.Stdout, c.Stderr = env, os.Stdin, os.Stdout, os.Stderr
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	if err := c.Start(); err != nil {
		return err
	}
	var passing sync.WaitGroup
	passing.Go(func() {
		for s := range signals {
			c.Process.Signal(s) // it may have ended
		}
	})
	err := c.Wait()
	signal.Stop(signals)
	close(signals)
	passing.Wait()
	ended := (*exec.ExitError)(nil)
	if !errors.As(err, &ended) {
		return err
	}
	if status, ok := ended.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return command.ExitWith(128 + int(status.Signal()))
	}
	return command.ExitWith(ended.ExitCode())
}
