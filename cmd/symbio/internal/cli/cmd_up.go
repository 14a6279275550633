package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/spf13/cobra"

	"symbio/agent/event"
	"symbio/agent/node"
	"symbio/agent/node/config"
	"symbio/cmd/symbio/internal/command"
	"symbio/internal/agent/node/nodelog"
)

// nodeFlags are the flags of the commands that can run a node: up, run and chat.
type nodeFlags struct {
	// Empty texts mean that the flag was not given. listen is HOST:PORT, config and workspace are
	// paths.
	config, name, listen, workspace string
	// peers are addresses as under discovery.peers. They are added to the peers of the configuration.
	peers []string
	// noMDNS can only switch mDNS off: the configuration switches it on by default.
	noMDNS bool
	// logLevel and logFormat are passed to nodelog, which checks the format. The zero logLevel is
	// info, but the default of the flag is warn.
	logLevel  slog.Level
	logFormat string
}

// add registers the flags with cmd. The defaults in the help are the configuration's defaults, so
// only the log flags have one of their own.
func (f *nodeFlags) add(cmd *cobra.Command) {
	command.ConfigFlag(cmd, &f.config)
	cmd.Flags().StringVar(&f.name, "name", "", "`NAME` of the node (default the name of this machine)")
	cmd.Flags().StringVar(&f.listen, "listen", "", "`HOST:PORT` to listen on for other nodes (default 127.0.0.1 and a free port; in a cluster, the address given to init or join)")
	cmd.Flags().StringVar(&f.workspace, "workspace", "", "`DIR` in which agents work (default the current directory)")
	cmd.Flags().StringArrayVar(&f.peers, "peer", nil, "`ADDRESS` of a node to connect to, HOST:PORT or wss://HOST/PATH; it names the others; may be repeated")
	cmd.Flags().BoolVar(&f.noMDNS, "no-mdns", false, "do not look for nodes by mDNS and do not announce this one")
	cmd.Flags().TextVar(&f.logLevel, "log-level", slog.LevelWarn, "lowest `LEVEL` that is logged to standard error and log.file: debug, info, warn or error")
	cmd.Flags().StringVar(&f.logFormat, "log-format", "text", "`FORMAT` of the log: text or json")
}

// apply puts the flags that were given over the configuration, and records them as the origin of
// the values. Peers are added to the configured ones. It changes c and from. A flag that was not
// given leaves its value alone.
func (f *nodeFlags) apply(c *config.Config, from config.Origins) {
	if f.name != "" {
		c.Node.Name = f.name
		from.Set("node.name", "flag --name")
	}
	if f.listen != "" {
		c.Node.Listen = f.listen
		from.Set("node.listen", "flag --listen")
	}
	if _, isSet := from["node.listen"]; !isSet {
		// Nothing says where to listen, so the node decides: the address that its cluster was set
		// up with, else loopback.
		c.Node.Listen = ""
	}
	if f.workspace != "" {
		c.Workspace = f.workspace
		from.Set("workspace", "flag --workspace")
	}
	if f.peers != nil {
		c.Discovery.Peers = append(c.Discovery.Peers, f.peers...)
		from.Set("discovery.peers", "flag --peer")
	}
	if f.noMDNS {
		c.Discovery.MDNS = false
		from.Set("discovery.mdns", "flag --no-mdns")
	}
}

// openLog opens the log of a node and sets it in to. It goes to standard error and to the
// configured file; a conversation on a terminal keeps standard error for itself unless --log-level
// asks for a log. Under systemd the lines have the prefixes of the journal. The caller must close
// file. A wrong --log-format is a usage error. The node must have ended before file is closed.
func openLog(env *command.Env, f nodeFlags, to *node.Config, conversation bool) (file io.Closer, err error) {
	o := nodelog.Options{Level: f.logLevel, Format: f.logFormat, Stream: env.Err, File: to.Settings.Reports.Log.File}
	// systemd sets JOURNAL_STREAM when standard error is the journal. A person who runs a command
	// from a service's shell has a terminal instead.
	o.Journal = !env.ErrIsTerminal && env.Getenv("JOURNAL_STREAM") != ""
	// The default level counts as not given. Log lines would be mixed with the answer on the
	// screen.
	if env.ErrIsTerminal && conversation && f.logLevel == slog.LevelWarn {
		o.Stream = nil
	}
	if to.Logger, file, err = nodelog.Open(o); errors.Is(err, nodelog.ErrFormat) {
		err = command.Usage(err)
	}
	return file, err
}

// cmdUp returns the command up, which runs a node until the command is interrupted. Its exit status
// is 0 after SIGINT or SIGTERM, and 1 if the node fails. On SIGHUP it reloads the configuration,
// unless standard output is a terminal.
func cmdUp(env *command.Env) *cobra.Command {
	var flags nodeFlags
	var dashboard string
	var labels []string
	cmd := &cobra.Command{
		Use:  "up",
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, from, err := env.LoadConfig(flags.config)
			if err != nil {
				return err
			}
			flags.apply(&c, from)
			applyLabels(&c, from, labels)
			if dashboard != "" || labels != nil {
				c.Reports.Dashboard = cmp.Or(dashboard, c.Reports.Dashboard)
				if err := c.Check(); err != nil {
					return command.Usage(err)
				}
			}
			opts, err := env.NodeOptions(c)
			if err != nil {
				return err
			}
			log, err := openLog(env, flags, &opts, false)
			if err != nil {
				return err
			}
			defer log.Close()
			// Read is called at each reload, so that the flags stay in force over the file.
			opts.Read = func() (config.Config, error) {
				c, from, err := env.LoadConfig(flags.config)
				if err == nil {
					flags.apply(&c, from)
					applyLabels(&c, from, labels)
				}
				return c, err
			}
			// New fails at once when another node has the name or the port.
			n, err := node.New(opts)
			if err != nil {
				return err
			}
			hup := make(chan os.Signal, 1)
			// On a terminal SIGHUP means that it was closed, which ends the node; elsewhere it asks
			// for a reload, as of other daemons.
			if !env.OutIsTerminal {
				// main ends the context on SIGHUP; Reset takes that back for this signal.
				signal.Reset(syscall.SIGHUP)
				signal.Notify(hup, syscall.SIGHUP)
			}
			return runNode(cmd.Context(), env, n, c.Reports.Dashboard, hup)
		},
	}
	flags.add(cmd)
	cmd.Flags().StringVar(&dashboard, "dashboard", "", "serve the dashboard in the browser, at `IP:PORT` of this machine (default 127.0.0.1 and a free port)")
	cmd.Flags().Lookup("dashboard").NoOptDefVal = "127.0.0.1:0"
	cmd.Flags().StringArrayVar(&labels, "label", nil, "`LABEL` of the node, KEY=VALUE, by which tasks are placed and members are found; may be repeated")
	return cmd
}

// applyLabels puts labels, each KEY=VALUE, over the labels of the configuration. A value that is missing is an error of c.Check.
func applyLabels(c *config.Config, from config.Origins, labels []string) {
	for _, label := range labels {
		key, value, _ := strings.Cut(label, "=")
		if c.Labels == nil {
			c.Labels = map[string]string{}
		}
		c.Labels[key] = value
		from.Set("labels."+key, "flag --label")
	}
}

// runNode runs a node until ctx ends. It prints one line when the node is ready, another with the
// address of the dashboard unless dashboard is "", then the events. A signal on hup makes the node read its configuration again.
//
// Two goroutines run until the node has ended: the node itself and the one that prints. The end of
// the node closes the channel of Ready, which ends the other one.
func runNode(ctx context.Context, env *command.Env, n *node.Node, dashboard string, hup <-chan os.Signal) error {
	// Subscribe before the node runs, so that no event is missed.
	events := n.Events().Subscribe(time.Time{})
	defer events.Close()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return n.Run(ctx) })
	g.Go(func() error {
		// pending stays nil, and its case blocked, until the ready line is printed: that line is
		// the first one.
		var pending <-chan struct{}
		for running := true; running; {
			select {
			// A node that takes up a new identity is ready again, and a second line is printed.
			case r, ok := <-n.Ready():
				if running = ok; !ok {
					break
				}
				url, err := openDashboard(ctx, n, dashboard)
				if err == nil {
					err = errors.Join(printReady(env, r), printDashboard(env, url))
				}
				if err != nil {
					return err
				}
				pending = events.Ready()
			case <-hup:
				// The result is in the log and in the events.
				_, _, _ = n.Reload()
			case <-pending:
			}
			// Ready of the subscription fires once for several events, so all of them are taken.
			// After the end of the node this prints the last ones.
			for pending != nil {
				e, ok := events.Take()
				if !ok {
					break
				}
				watchNode(env, e)
			}
		}
		return nil
	})
	return g.Wait()
}

// readyJSON is the first line of `symbio up --json`. The names are a contract. It is printed again
// when the node takes up a new identity.
type readyJSON struct {
	// Type is always "ready".
	Type string `json:"type"`
	Name string `json:"name"`
	// ID is the fingerprint of the node's key, in hexadecimal.
	ID string `json:"id"`
	// Listen is the address for other nodes, HOST:PORT, with the port that was chosen.
	Listen string `json:"listen"`
	// Socket is the path of the control socket.
	Socket string `json:"socket"`
	// PID is the process to signal.
	PID int `json:"pid"`
}

// printReady prints the ready line. For a person it adds a note when the node is outside of the
// cluster that this machine holds the authority of. The error is one of writing, which ends the
// node.
func printReady(env *command.Env, r node.Info) error {
	if env.JSON {
		return env.PrintLine(readyJSON{"ready", r.Name, string(r.ID), r.Listen, r.Socket, os.Getpid()})
	}
	err := env.Printf("node %s is ready: id %s, listening on %s\n", r.Name, r.ID, r.Listen)
	if note := env.State().Node(r.Name).Outsider(r.Listen); note != "" {
		fmt.Fprintln(env.Err, note)
	}
	return err
}

// openDashboard makes the node serve the dashboard at listen, and returns its address; "" for "". A node
// that takes up a new identity serves it anew. The error ends the node before it is called ready.
func openDashboard(ctx context.Context, n *node.Node, listen string) (url string, err error) {
	if listen == "" {
		return "", nil
	}
	return n.Dashboard(ctx, listen)
}

// printDashboard prints the address of the dashboard: on a terminal the one that opens it once,
// elsewhere, as in a journal that others read, the one without the token. "" does nothing.
func printDashboard(env *command.Env, url string) error {
	if url == "" {
		return nil
	}
	if !env.OutIsTerminal {
		url, _, _ = strings.Cut(url, "/login")
	}
	if env.JSON {
		return env.PrintLine(struct {
			Type string `json:"type"` // always "dashboard"
			URL  string `json:"url"`
		}{"dashboard", url})
	}
	if !env.OutIsTerminal {
		url += ", which symbio dashboard opens"
	}
	return env.Printf("dashboard: %s\n", url)
}

// watchNode shows an event of the node: every event with --json, the notable ones to a person. It
// must not block for long, because the subscription drops events when its reader is slow.
func watchNode(env *command.Env, e event.Event) {
	if env.JSON {
		if err := env.PrintLine(e); err != nil {
			// The reader of the output has ended. The node goes on without it.
			return
		}
		return
	}
	if notableEvents[e.Type] {
		fmt.Fprintln(env.Err, e.Time.Local().Format("15:04:05"), command.EventLine(e))
	}
}

// notableEvents are the types of events that are shown to a person who runs a node. `symbio events`
// shows all. It is never written to.
var notableEvents = map[string]bool{
	"node": true, "joined": true, "left": true, "became available": true, "became unavailable": true,
	"task": true, "done": true, "failed": true, "refused": true, "gap": true, "warning": true, "reloaded": true, "session": true,
}
