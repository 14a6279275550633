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
	// Holders are the nodes on whose machines the authority is known to be.
	Holders []holderJSON `json:"holders"`
}

func (a *App) cmdClusterStatus() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:     "status",
		Short:   "Which cluster this node is in, and for how long its certificate is good",
		Example: "  symbio cluster status\n  symbio cluster status --json",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			state, err := a.state()
			if err != nil {
				return err
			}
			name, err := a.memberName(file)
			if err != nil {
				return err
			}
			s, err := a.clusterStatus(cmd.Context(), state, name)
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

func (a *App) clusterStatus(ctx context.Context, state node.State, name string) (clusterJSON, error) {
	if err := state.InCluster(name); errors.Is(err, node.ErrNoCluster) {
		return clusterJSON{}, notFound(err)
	} else if err != nil {
		return clusterJSON{}, err
	}
	id, err := state.Identity(name)
	if err != nil {
		return clusterJSON{}, err
	}
	s := clusterJSON{
		Cluster: id.Authority(), Tag: id.Tag(), Authority: id.Cluster() != nil, Node: name, ID: string(id.ID()),
		Expires: id.NotAfter().UTC(), Days: int(time.Until(id.NotAfter()) / (24 * time.Hour)), Removed: id.Revocations().Count(),
	}
	if s.Holders, err = a.holders(ctx, state, name, id); err != nil {
		return s, err
	}
	if s.Authority {
		s.Tokens, err = id.Cluster().OpenTokens()
	}
	return s, err
}

func (s clusterJSON) rows() [][]string {
	rows := [][]string{
		{"cluster", s.Cluster}, {"tag", s.Tag}, {"authority", s.authorityRow()}, {"node", s.Node}, {"id", s.ID},
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
	// Authority says that its machine holds the cluster's authority.
	Authority bool `json:"authority,omitempty"`
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
				authority := ""
				if n.Authority {
					authority = "holds it"
				}
				rows[i] = []string{n.ID, n.Name, n.Role, n.State, expires, authority}
			}
			return a.table([]string{"ID", "NAME", "ROLE", "STATE", "CERTIFICATE UNTIL", "AUTHORITY"}, rows)
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
		n := clusterNodeJSON{ID: string(r.ID), Name: r.Name, Role: r.Role, State: "unavailable", Joined: known(r.Joined), Expires: known(r.Expires), Authority: r.Holds}
		if one, ok := seen[n.ID]; ok {
			n.State, n.Authority = one.State, n.Authority || one.Authority
			if n.Name == "" {
				n.Name = one.Name
			}
			delete(seen, n.ID)
		}
		if liveErr != nil {
			n.State = stateUnknown
		}
		if r.Removed {
			n.State = stateRemoved
		}
		nodes[i] = n
	}
	// A node that another machine with the authority has let in is known here by its connection.
	for _, n := range live {
		if _, other := seen[n.ID]; other && n.State == "connected" {
			nodes = append(nodes, n)
		}
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
			nodes = append(nodes, clusterNodeJSON{ID: n.GetId(), Name: n.GetName(), State: n.GetState(), Authority: n.GetHoldsAuthority()})
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
			r, err := a.oneNode(cmd.Context(), c, args[0])
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
				err = a.printJSON(clusterNodeJSON{ID: string(r.ID), Name: r.Name, Role: r.Role, State: stateRemoved, Joined: known(r.Joined), Expires: known(r.Expires)})
			} else {
				_, err = fmt.Fprintf(a.Out, "removed\t%s\t%s\n", r.ID, printable(r.Name))
			}
			if r.Holds {
				fmt.Fprintf(a.Err, "%v\n", errHolderRemoved)
			}
			return errors.Join(err, a.tellNodes(cmd.Context(), state))
		},
	}
}

// known is a time, or nil when it is not known here.
func known(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// shortest is how much of an id must be given.
const shortest = 6

// oneNode finds the node that a person means: among those that were certified here, else one that another
// machine with the authority has let in, by its whole id or while it is connected here.
func (a *App) oneNode(ctx context.Context, c *identity.Cluster, what string) (identity.Record, error) {
	r, err := oneRecord(c, what)
	if exitStatus(err) != exitNotFound {
		return r, err
	}
	if id, bad := identity.ParseNodeID(what); bad == nil {
		return identity.Record{ID: id}, nil
	}
	live, liveErr := a.liveNodes(ctx)
	if liveErr != nil {
		return r, err
	}
	var found []clusterNodeJSON
	for _, n := range live {
		if n.State == "connected" && (n.Name == what || len(what) >= shortest && strings.HasPrefix(n.ID, what)) {
			found = append(found, n)
		}
	}
	if len(found) != 1 {
		return r, err
	}
	id, bad := identity.ParseNodeID(found[0].ID)
	if bad != nil {
		return r, err
	}
	return identity.Record{ID: id, Name: found[0].Name, Holds: found[0].Authority}, nil
}

// oneRecord finds the node that a person means among those that were certified here.
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
