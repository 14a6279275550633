package cli

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"symbio/cmd/symbio/internal/config"
	"symbio/cmd/symbio/internal/node"
)

// nodeFlags are the flags of the commands that run a node.
type nodeFlags struct {
	config, name, listen, workspace string
	peers                           []string
	noMDNS                          bool
}

func (f *nodeFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.config, "config", "", "configuration file (default: symbio/symbio.yaml in your configuration directory)")
	cmd.Flags().StringVar(&f.name, "name", "", "what to call the node (default: this machine's name)")
	cmd.Flags().StringVar(&f.listen, "listen", "", "host:port to listen on for other nodes (default 127.0.0.1, any port; in a cluster, what init or join was told)")
	cmd.Flags().StringVar(&f.workspace, "workspace", "", "the directory in which agents work (default: here)")
	cmd.Flags().StringArrayVar(&f.peers, "peer", nil, "host:port of a node to connect to, which tells of the others; may be repeated")
	cmd.Flags().BoolVar(&f.noMDNS, "no-mdns", false, "do not look for nodes by mDNS, and do not announce this one")
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
	if _, said := from["node.listen"]; !said {
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

func (a *App) cmdUp() *cobra.Command {
	var flags nodeFlags
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Run a node in the foreground, until Ctrl-C",
		Long: `Run a node. Nodes of the same user on one machine find each other by mDNS and trust each other with
no set-up, and the node listens on loopback only. A node that has made or joined a cluster (symbio
cluster init, symbio join) is a node of that cluster, and listens for the nodes of other machines.`,
		Example: `  symbio up
  symbio up --name kitchen --config kitchen.yaml
  symbio up --peer 127.0.0.1:7946 --no-mdns`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, from, err := a.loadConfig(flags.config)
			if err != nil {
				return err
			}
			flags.apply(&c, from)
			opts, err := a.nodeOptions(c)
			if err != nil {
				return err
			}
			opts.Ready = func(r node.Ready) error { return a.printReady(r) }
			opts.Watch = a.watchNode
			return node.Run(cmd.Context(), opts)
		},
	}
	flags.add(cmd)
	return cmd
}

// nodeOptions is everything of this process that a node needs.
func (a *App) nodeOptions(c config.Config) (node.Options, error) {
	state, err := a.state()
	if err != nil {
		return node.Options{}, err
	}
	dir, err := os.Getwd()
	if err != nil {
		return node.Options{}, err
	}
	home, err := a.home()
	if err != nil {
		return node.Options{}, err
	}
	host, err := os.Hostname()
	if err != nil {
		host = "node"
	}
	v := version()
	return node.Options{Config: c, State: state, Dir: dir, Home: home, Host: host, Getenv: a.Getenv, Version: v.Version}, nil
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

func (a *App) printReady(r node.Ready) error {
	if a.json {
		return a.printLine(readyJSON{"ready", r.Name, string(r.ID), r.Listen, r.Socket, os.Getpid()})
	}
	_, err := fmt.Fprintf(a.Out, "node %s is ready: id %s, listening on %s\n", r.Name, r.ID, r.Listen)
	return err
}

// watchNode shows a node's events while it runs: all of them as JSON, the notable ones to a person.
func (a *App) watchNode(e node.Event) {
	if a.json {
		if err := a.printLine(e); err != nil {
			return // whoever read the events is gone; the node goes on
		}
		return
	}
	if notable[e.Type] {
		fmt.Fprintln(a.Err, e.Time.Local().Format("15:04:05"), eventLine(e))
	}
}

// notable are the events that somebody who runs a node wants to see as they come.
var notable = map[string]bool{
	"node": true, "joined": true, "left": true, "became available": true, "became unavailable": true,
	"task": true, "done": true, "failed": true, "refused": true, "gap": true, "warning": true,
}
