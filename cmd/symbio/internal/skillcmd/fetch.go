package skillcmd

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"symbio/cmd/symbio/internal/command"
	"symbio/internal/security/visible"
	"symbio/internal/skills/share"
	"symbio/internal/skills/trust"
	symbiov1 "symbio/proto/symbio/v1"
	"symbio/skills"
	"symbio/skills/format"
)

// cmdSkillsFetch returns the command skills fetch. Without an argument it lists fetched skills,
// with NODE those that the node shares, and with NODE/NAME it fetches one. A fetched skill is not
// used before it is trusted.
//
// Its exit status is 4 for a hash that is not stored, and the status of the node's reply when the other
// node denies the call or cannot be reached.
func cmdSkillsFetch(env *command.Env) *cobra.Command {
	var remove, hash string
	cmd := &cobra.Command{
		Use:  "fetch [NODE[/NAME]]",
		Args: command.RangeArgs(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case remove != "" && (len(args) > 0 || hash != ""):
				return command.Usage(errors.New("--remove allows no arguments and no --hash"))
			// A hash belongs to one skill. A list of skills has none to compare.
			case hash != "" && !strings.Contains(strings.Join(args, ""), "/"):
				return command.Usage(errors.New("--hash needs one skill, named as NODE/NAME"))
			case remove != "":
				return removeFetched(cmd.Context(), env, remove)
			case len(args) == 0:
				return listFetched(env)
			}
			// The name of a skill contains no slash, so the first one separates the node from the
			// skill.
			on, name, one := strings.Cut(args[0], "/")
			if on == "" || one && name == "" {
				return command.Usage(fmt.Errorf("want NODE or NODE/NAME, not %q", args[0]))
			}
			if !one {
				return listShared(cmd.Context(), env, on)
			}
			return fetchSkill(cmd.Context(), env, on, name, hash)
		},
	}
	cmd.Flags().StringVar(&remove, "remove", "", "remove the fetched skill with this `SHA256` and the trust in it")
	cmd.Flags().StringVar(&hash, "hash", "", "fetch the skill only if its `SHA256` matches")
	return cmd
}

// peerCall returns a function that invokes capabilities of one node through the running node. It
// sets from to the node that answered. The calls go through the running node, because only that has
// connections to others. on is the name or id of a node. Each call waits for the reply; share.List
// and share.Fetch bound the time of all calls together.
func peerCall(env *command.Env, client symbiov1.ControlClient, on string, from *symbiov1.CallReply) share.Call {
	return func(ctx context.Context, capability string, input []byte) ([]byte, error) {
		reply, err := client.Call(ctx, &symbiov1.CallRequest{Capability: capability, On: on, Data: input, ContentType: "application/json"})
		if err != nil {
			return nil, err
		}
		from.Node, from.NodeName = reply.GetNode(), reply.GetNodeName()
		return reply.GetData(), nil
	}
}

// listShared prints the skills that another node shares. At most 10,000 skills are listed. The
// other node must allow skills.list to this one.
func listShared(ctx context.Context, env *command.Env, on string) error {
	return env.Nodes().With(func(client symbiov1.ControlClient) error {
		list, err := share.List(ctx, peerCall(env, client, on, &symbiov1.CallReply{}))
		if err != nil {
			return err
		}
		return command.PrintList(env, list, []string{"NAME", "DESCRIPTION"}, func(s share.SkillSummary) []string {
			return []string{s.Name, visible.TruncateRunes(s.Description, 100)}
		})
	})
}

// fetchSkill fetches one skill and stores it under the hash of all its files. With hash it is
// stored only if that is its hash. Fetching the same skill again changes nothing. It needs a
// running node, but the skill is stored for all nodes of this user.
func fetchSkill(ctx context.Context, env *command.Env, on, name, hash string) error {
	return env.Nodes().With(func(client symbiov1.ControlClient) error {
		var from symbiov1.CallReply
		// Fetch checks the hash, the format and the limits before anything is written.
		pack, err := share.Fetch(ctx, peerCall(env, client, on, &from), name, hash)
		if err != nil {
			return err
		}
		// Put returns the earlier origin if the skill is stored already, so the output can name another
		// node than this fetch asked.
		o, err := env.State().Skills().Store.Put(pack, from.GetNode(), from.GetNodeName())
		if err != nil {
			return err
		}
		if env.JSON {
			return env.PrintJSON(o)
		}
		return env.Printf("%s from node %s (%s): %s, %s\nsha256 %s\nIt is not used until you trust it: symbio skills trust %s\n",
			o.Name, o.NodeName, o.Node, visible.Plural(o.Files, "file"), visible.Plural(int(o.Bytes), "byte"), o.Hash, o.Hash)
	})
}

// fetchedJSON is a fetched skill. The JSON names are a contract. Trust is "proposal", "trusted" or
// "changed".
type fetchedJSON struct {
	share.Origin
	Trust trust.State `json:"trust"`
}

// listFetched prints the fetched skills. One that cannot be read is listed as a proposal, with a
// note. It needs no running node.
func listFetched(env *command.Env) error {
	keeper := env.State().Skills()
	all, err := keeper.Store.List()
	if err != nil {
		return err
	}
	// The list is not nil, so that --json prints [] without any fetched skill.
	list := []fetchedJSON{}
	for _, o := range all {
		// A skill that cannot be verified counts as one that no person trusts.
		one := fetchedJSON{o, trust.Proposal}
		skill, _, hash, err := skills.LoadFull(keeper.Store.Dir(o.Hash, o.Name), format.Policy{})
		// The scope decides how trust is looked up; LoadFull cannot know it.
		skill.Scope = skills.ScopePeer
		// State reads all files of a trusted skill again, because they may have been changed since
		// it was stored.
		if err == nil {
			one.Trust, err = keeper.State(skill, hash)
		}
		if err != nil {
			env.Notef("note: %s", err.Error())
		}
		list = append(list, one)
	}
	return command.PrintList(env, list, []string{"NAME", "SHA256", "FROM", "TRUST", "DESCRIPTION"}, func(o fetchedJSON) []string {
		known, _, _ := strings.Cut(trustLine(o.Trust, share.Origin{}), ":")
		return []string{o.Name, o.Hash, o.NodeName, known, visible.TruncateRunes(o.Description, 100)}
	})
}

// removeFetched deletes a fetched skill and every trust in it, and makes running nodes look at
// their skills again. hash is the hash of all its files. Its exit status is 4 when no such skill is
// stored. An agent that has the skill active loses it at the scan.
func removeFetched(ctx context.Context, env *command.Env, hash string) error {
	err := env.State().Skills().Forget(hash)
	if errors.Is(err, share.ErrNotStored) {
		return command.NotFound(fmt.Errorf("%w; `symbio skills fetch` lists those that are", err))
	}
	// The skill is gone even if a record could not be removed, so the nodes scan in any case.
	rescan(ctx, env)
	return err
}
