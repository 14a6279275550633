package cli

import (
	"context"
	"errors"
	"fmt"
	"golang.org/x/sync/errgroup"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"symbio/agent/event"
	"symbio/agent/node"
	"symbio/agent/node/config"
	"symbio/agent/node/nodelog"
	"symbio/cmd/symbio/internal/command"
)

// nodeFlags are the flags of the commands that run a node.
type nodeFlags struct {
	config, name, listen, workspace string
	peers                           []string
	noMDNS                          bool
	logLevel                        slog.Level
	logFormat                       string
}

func (f *nodeFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.config, "config", "", "configuration file (default: symbio/symbio.yaml in your configuration directory)")
	cmd.Flags().StringVar(&f.name, "name", "", "what to call the node (default: this machine's name)")
	cmd.Flags().StringVar(&f.listen, "listen", "", "host:port to listen on for other nodes (default 127.0.0.1, any port; in a cluster, what init or join was told)")
	cmd.Flags().StringVar(&f.workspace, "workspace", "", "the directory in which agents work (default: here)")
	cmd.Flags().StringArrayVar(&f.peers, "peer", nil, "host:port of a node to connect to, which tells of the others; may be repeated")
	cmd.Flags().BoolVar(&f.noMDNS, "no-mdns", false, "do not look for nodes by mDNS, and do not announce this one")
	cmd.Flags().TextVar(&f.logLevel, "log-level", slog.LevelWarn, "what is logged to standard error and log.file: debug, info, warn or error, and what is above")
	cmd.Flags().StringVar(&f.logFormat, "log-format", "text", "how it is logged: text or json")
}

// apply lays the flags over the configuration.
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
		c.Node.Listen = "" // the node's cluster decides
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

// openLog gives a node its Logger: to standard error, which a conversation on a terminal keeps for itself unless
// --log-level asks, and to the configured file. The caller closes the file.
func openLog(env *command.Env, f nodeFlags, to *node.Config, conversation bool) (file io.Closer, err error) {
	o := nodelog.Options{Level: f.logLevel, Format: f.logFormat, Stream: env.Err, File: to.Settings.Log.File, MaxSize: to.Settings.Log.Max}
	o.Journal = !env.ErrIsTerminal && env.Getenv("JOURNAL_STREAM") != ""
	if env.ErrIsTerminal && conversation && f.logLevel == slog.LevelWarn {
		o.Stream = nil
	}
	if to.Logger, file, err = nodelog.Open(o); errors.Is(err, nodelog.ErrFormat) {
		err = command.Usage(err)
	}
	return file, err
}

func cmdUp(env *command.Env) *cobra.Command {
	var flags nodeFlags
	cmd := &cobra.Command{
		Use:  "up",
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, from, err := env.LoadConfig(flags.config)
			if err != nil {
				return err
			}
			flags.apply(&c, from)
			opts, err := env.NodeOptions(c)
			if err != nil {
				return err
			}
			log, err := openLog(env, flags, &opts, false)
			if err != nil {
				return err
			}
			defer log.Close()
			opts.Read = func() (config.Config, error) {
				c, from, err := env.LoadConfig(flags.config)
				if err == nil {
					flags.apply(&c, from)
				}
				return c, err
			}
			n, err := node.New(opts)
			if err != nil {
				return err
			}
			hup := make(chan os.Signal, 1)
			if !env.OutIsTerminal { // closing that ends the node
				signal.Reset(syscall.SIGHUP)
				signal.Notify(hup, syscall.SIGHUP)
			}
			return runNode(cmd.Context(), env, n, hup)
		},
	}
	flags.add(cmd)
	return cmd
}

// runNode runs a node until ctx ends, and shows first that it is ready, then what happens on it. At a signal of hup the node
// reads its rules anew.
func runNode(ctx context.Context, env *command.Env, n *node.Node, hup <-chan os.Signal) error {
	events := n.Events().Subscribe(time.Time{})
	defer events.Close()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return n.Run(ctx) })
	g.Go(func() error {
		var pending <-chan struct{} // nil until the node is ready
		for running := true; running; {
			select {
			case r, ok := <-n.Ready():
				if running = ok; !ok {
					break
				}
				if err := printReady(env, r); err != nil {
					return err
				}
				pending = events.Ready()
			case <-hup:
				_, _, _ = n.Reload() // the log and the events say what came of it
			case <-pending:
			}
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

// readyJSON is the first line of `symbio up --json`.
type readyJSON struct {
	Type   string `json:"type"`
	Name   string `json:"name"`
	ID     string `json:"id"`
	Listen string `json:"listen"`
	Socket string `json:"socket"`
	PID    int    `json:"pid"`
}

func printReady(env *command.Env, r node.Info) error {
	if env.JSON {
		return env.PrintLine(readyJSON{"ready", r.Name, string(r.ID), r.Listen, r.Socket, os.Getpid()})
	}
	err := env.Printf("node %s is ready: id %s, listening on %s\n", r.Name, r.ID, r.Listen)
	if state, bad := env.State(); bad == nil {
		if note := state.Node(r.Name).Outsider(); note != "" {
			fmt.Fprintln(env.Err, note)
		}
	}
	return err
}

// watchNode shows a node's events while it runs: all of them as JSON, the notable ones to a person.
func watchNode(env *command.Env, e event.Event) {
	if env.JSON {
		if err := env.PrintLine(e); err != nil {
			return // whoever read the events is gone; the node goes on
		}
		return
	}
	if notableEvents[e.Type] {
		fmt.Fprintln(env.Err, e.Time.Local().Format("15:04:05"), command.EventLine(e))
	}
}

// notableEvents are the events that somebody who runs a node wants to see as they come.
var notableEvents = map[string]bool{
	"node": true, "joined": true, "left": true, "became available": true, "became unavailable": true,
	"task": true, "done": true, "failed": true, "refused": true, "gap": true, "warning": true, "reloaded": true,
}
