package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"symbio/cmd/symbio/internal/node"
	symbiov1 "symbio/proto/symbio/v1"
	"symbio/security/identity"
)

// clusterJSON is a cluster as one node has it; the names are a contract.
type clusterJSON struct {
	Cluster   string    `json:"cluster"`
	Tag       string    `json:"tag"`
	Authority bool      `json:"authority"` // whether it is held on this machine
	Node      string    `json:"node"`
	ID        string    `json:"id"`
	Expires   time.Time `json:"expires"`
	Days      int       `json:"cert_days"`
	Removed   int       `json:"removed"`
	Tokens    int       `json:"tokens"` // that a node could join with; 0 where the authority is not
}

func (a *App) cmdClusterStatus() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:     "status",
		Short:   "Which cluster this node is in, and for how long its certificate is good",
		Example: "  symbio cluster status\n  symbio cluster status --json",
		Args:    noArgs,
		RunE: func(*cobra.Command, []string) error {
			state, err := a.state()
			if err != nil {
				return err
			}
			name, err := a.memberName(file)
			if err != nil {
				return err
			}
			s, err := clusterStatus(state, name)
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(s)
			}
			return a.table([]string{"WHAT", "VALUE"}, s.rows())
		},
	}
	cmd.Flags().StringVar(&file, "config", "", "the configuration that names the node, as for symbio up")
	return cmd
}

func clusterStatus(state node.State, name string) (clusterJSON, error) {
	if err := state.InCluster(name); errors.Is(err, node.ErrNoCluster) {
		return clusterJSON{}, notFound(err)
	} else if err != nil {
		return clusterJSON{}, err
	}
	id, err := state.Identity(name)
	if err != nil {
		return clusterJSON{}, err
	}
	list, _ := id.Revocations().Current()
	s := clusterJSON{
		Cluster: id.Authority(), Tag: id.Tag(), Authority: id.Cluster() != nil, Node: name, ID: string(id.ID()),
		Expires: id.NotAfter().UTC(), Days: int(time.Until(id.NotAfter()) / (24 * time.Hour)), Removed: len(list.GetNodes()),
	}
	if s.Authority {
		s.Tokens, err = id.Cluster().OpenTokens()
	}
	return s, err
}

func (s clusterJSON) rows() [][]string {
	held := "on another machine"
	if s.Authority {
		held = "on this machine"
	}
	rows := [][]string{
		{"cluster", s.Cluster}, {"tag", s.Tag}, {"authority", held}, {"node", s.Node}, {"id", s.ID},
		{"certificate", fmt.Sprintf("%d days left, until %s", s.Days, s.Expires.Format(time.RFC3339))},
		{"removed nodes", strconv.Itoa(s.Removed)},
	}
	if s.Authority {
		rows = append(rows, []string{"open tokens", strconv.Itoa(s.Tokens)})
	}
	return rows
}

// clusterNodeJSON is a node of a cluster; the names are a contract.
type clusterNodeJSON struct {
	ID      string     `json:"id"`
	Name    string     `json:"name"`
	Role    string     `json:"role,omitempty"`
	State   string     `json:"state"` // as in symbio nodes; removed; or unknown when no node runs here
	Joined  *time.Time `json:"joined,omitempty"`
	Expires *time.Time `json:"expires,omitempty"`
}

const stateUnknown, stateRemoved = "unknown", "removed"

func (a *App) cmdClusterNodes() *cobra.Command {
	return &cobra.Command{
		Use:   "nodes",
		Short: "The nodes of the cluster: their roles, and whether they are there",
		Long: `List the nodes of the cluster. Where the authority is held, these are all that ever joined, with their roles
and how long their certificates are good; elsewhere, those that the running node knows.`,
		Example: "  symbio cluster nodes\n  symbio cluster nodes --json",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			nodes, err := a.clusterNodes(cmd.Context())
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(nodes)
			}
			rows := make([][]string, len(nodes))
			for i, n := range nodes {
				expires := ""
				if n.Expires != nil {
					expires = n.Expires.Format(time.DateOnly)
				}
				rows[i] = []string{n.ID, n.Name, n.Role, n.State, expires}
			}
			return a.table([]string{"ID", "NAME", "ROLE", "STATE", "CERTIFICATE UNTIL"}, rows)
		},
	}
}

func (a *App) clusterNodes(ctx context.Context) ([]clusterNodeJSON, error) {
	state, err := a.state()
	if err != nil {
		return nil, err
	}
	live, liveErr := a.liveNodes(ctx)
	c, err := state.OpenCluster()
	if errors.Is(err, node.ErrNoAuthority) {
		return live, liveErr
	}
	if err != nil {
		return nil, err
	}
	records, err := c.Nodes()
	if err != nil {
		return nil, err
	}
	seen := map[string]clusterNodeJSON{}
	for _, n := range live {
		seen[n.ID] = n
	}
	nodes := make([]clusterNodeJSON, len(records))
	for i, r := range records {
		n := clusterNodeJSON{ID: string(r.ID), Name: r.Name, Role: r.Role, State: "unavailable", Joined: &r.Joined, Expires: &r.Expires}
		if one, ok := seen[n.ID]; ok {
			n.State = one.State
		}
		if liveErr != nil {
			n.State = stateUnknown
		}
		if r.Removed {
			n.State = stateRemoved
		}
		nodes[i] = n
	}
	return nodes, nil
}

// liveNodes are the nodes that the running node knows.
func (a *App) liveNodes(ctx context.Context) ([]clusterNodeJSON, error) {
	client, conn, err := a.dial()
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	reply, err := client.Nodes(ctx, &symbiov1.NodesRequest{})
	if err != nil {
		return nil, err
	}
	var nodes []clusterNodeJSON
	for _, n := range reply.GetNodes() {
		if n.GetId() != "" {
			nodes = append(nodes, clusterNodeJSON{ID: n.GetId(), Name: n.GetName(), State: n.GetState()})
		}
	}
	return nodes, nil
}

func (a *App) cmdClusterRemove() *cobra.Command {
	return &cobra.Command{
		Use:   "remove NODE",
		Short: "Take a node out of the cluster, for good",
		Long: `Take a node out of the cluster, by its id or the beginning of it, or by its name when only one has it. Every
node closes its connections to it and takes no new ones. It comes back only with a new key and a new
token.`,
		Example: "  symbio cluster remove 0350081db72848337a5633cbf9b25a68\n  symbio cluster remove kitchen",
		Args:    exactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			state, err := a.state()
			if err != nil {
				return err
			}
			c, err := state.OpenCluster()
			if err != nil {
				return err
			}
			r, err := oneRecord(c, args[0])
			if err != nil {
				return err
			}
			own, err := state.OwnIDs()
			if err != nil {
				return err
			}
			if name, ok := own[r.ID]; ok {
				return fmt.Errorf("node %s is of this machine, which holds the authority; end it instead", name)
			}
			if err := c.Remove(r.ID); err != nil {
				return err
			}
			if a.json {
				err = a.printJSON(clusterNodeJSON{ID: string(r.ID), Name: r.Name, Role: r.Role, State: stateRemoved, Joined: &r.Joined, Expires: &r.Expires})
			} else {
				_, err = fmt.Fprintf(a.Out, "removed\t%s\t%s\n", r.ID, printable(r.Name))
			}
			return errors.Join(err, a.tellNodes(cmd.Context(), state))
		},
	}
}

// shortest is how much of an id must be given.
const shortest = 6

// oneRecord finds the node that a person means.
func oneRecord(c *identity.Cluster, what string) (identity.Record, error) {
	all, err := c.Nodes()
	if err != nil {
		return identity.Record{}, err
	}
	var found []identity.Record
	for _, r := range all {
		if string(r.ID) == what {
			return r, nil
		}
		if r.Name == what || len(what) >= shortest && strings.HasPrefix(string(r.ID), what) {
			found = append(found, r)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return identity.Record{}, notFound(fmt.Errorf("no node %q has joined cluster %s; `symbio cluster nodes` lists them", what, c.Name()))
	}
	return identity.Record{}, usage(fmt.Errorf("%d nodes fit %q; name one by its id: `symbio cluster nodes` lists them", len(found), what))
}
