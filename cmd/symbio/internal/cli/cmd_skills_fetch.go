package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	symbiov1 "symbio/proto/symbio/v1"
	"symbio/skills"
	"symbio/skills/format"
	"symbio/skills/share"
	"symbio/skills/trust"
)

func (a *App) cmdSkillsFetch() *cobra.Command {
	var remove, hash string
	cmd := &cobra.Command{
		Use:   "fetch [NODE[/NAME]]",
		Short: "Fetch a skill that another node shares, to look at it",
		Long: `Fetch a skill from another node, check it, and keep it apart, under the SHA-256 of all of its files. It is
not used until you trust that hash: symbio skills trust HASH.

With NODE alone, list what that node shares; without it, list what was fetched. A node shares skills when its
configuration says so (skills: {share: true}, or a list of names), with the nodes that may invoke skills.list
and skills.fetch there.`,
		Example: `  symbio skills fetch kitchen                    # what that node shares
  symbio skills fetch kitchen/release-notes
  symbio skills fetch                            # what was fetched
  symbio skills fetch --remove 5f1d…`,
		Args: rangeArgs(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case remove != "" && len(args) > 0:
				return usage(errors.New("--remove stands alone"))
			case remove != "":
				return a.removeFetched(cmd.Context(), remove)
			case len(args) == 0:
				return a.listFetched()
			}
			on, name, one := strings.Cut(args[0], "/")
			if on == "" || one && name == "" {
				return usage(fmt.Errorf("want NODE or NODE/NAME, not %q", args[0]))
			}
			if !one {
				return a.listShared(cmd.Context(), on)
			}
			return a.fetchSkill(cmd.Context(), on, name, hash)
		},
	}
	cmd.Flags().StringVar(&remove, "remove", "", "remove the fetched skill of that hash, and the trust in it")
	cmd.Flags().StringVar(&hash, "hash", "", "fetch it only if this is its SHA-256")
	return cmd
}

// peerCall invokes capabilities of one node through the running node; from is who has answered.
func (a *App) peerCall(client symbiov1.ControlClient, on string, from *symbiov1.CallReply) share.Call {
	return func(ctx context.Context, capability string, input []byte) ([]byte, error) {
		reply, err := client.Call(ctx, &symbiov1.CallRequest{Capability: capability, On: on, Data: input, ContentType: "application/json"})
		if err != nil {
			return nil, err
		}
		from.Node, from.NodeName = reply.GetNode(), reply.GetNodeName()
		return reply.GetData(), nil
	}
}

func (a *App) listShared(ctx context.Context, on string) error {
	client, conn, err := a.dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	list, err := share.List(ctx, a.peerCall(client, on, &symbiov1.CallReply{}))
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(append([]share.Offered{}, list...))
	}
	rows := make([][]string, len(list))
	for i, s := range list {
		rows[i] = []string{s.Name, clip(s.Description, 100)}
	}
	return a.table([]string{"NAME", "DESCRIPTION"}, rows)
}

func (a *App) fetchSkill(ctx context.Context, on, name, hash string) error {
	client, conn, err := a.dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	state, err := a.state()
	if err != nil {
		return err
	}
	var from symbiov1.CallReply
	pack, err := share.Fetch(ctx, a.peerCall(client, on, &from), name, hash)
	if err != nil {
		return err
	}
	o, err := state.Skills().Store.Put(pack, from.GetNode(), from.GetNodeName())
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(o)
	}
	_, err = fmt.Fprintf(a.Out, "%s from node %s (%s): %d files, %d bytes\nsha256 %s\nIt is not used until you trust it: symbio skills trust %s\n",
		printable(o.Name), printable(o.NodeName), printable(o.Node), o.Files, o.Bytes, o.Hash, o.Hash)
	return err
}

// fetchedJSON is a fetched skill in the output.
type fetchedJSON struct {
	share.Origin
	Trust trust.State `json:"trust"`
}

func (a *App) listFetched() error {
	state, err := a.state()
	if err != nil {
		return err
	}
	keeper := state.Skills()
	all, err := keeper.Store.List()
	if err != nil {
		return err
	}
	list := []fetchedJSON{}
	rows := [][]string{}
	for _, o := range all {
		one := fetchedJSON{o, trust.Proposal}
		skill, _, hash, err := skills.Inspect(keeper.Store.Dir(o.Hash, o.Name), skills.ScopePeer, format.Policy{})
		if err == nil {
			one.Trust, err = keeper.State(skill, hash)
		}
		if err != nil {
			fmt.Fprintln(a.Err, "note:", printable(err.Error()))
		}
		list = append(list, one)
		rows = append(rows, []string{o.Name, o.Hash, o.NodeName, string(one.Trust), clip(o.Description, 100)})
	}
	if a.json {
		return a.printJSON(list)
	}
	return a.table([]string{"NAME", "SHA256", "FROM", "TRUST", "DESCRIPTION"}, rows)
}

func (a *App) removeFetched(ctx context.Context, hash string) error {
	state, err := a.state()
	if err != nil {
		return err
	}
	keeper := state.Skills()
	if err := keeper.Store.Remove(hash); err != nil {
		if errors.Is(err, share.ErrNotStored) {
			return notFound(fmt.Errorf("%w; `symbio skills fetch` lists those that are", err))
		}
		return err
	}
	records, err := keeper.Book.Records()
	for _, r := range records {
		if r.Tree == hash {
			err = errors.Join(err, keeper.Book.Remove(r.Dir, r.Hash))
		}
	}
	a.rescan(ctx)
	return err
}
