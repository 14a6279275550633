package skillcmd

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"symbio/cmd/symbio/internal/command"
	symbiov1 "symbio/proto/symbio/v1"
	"symbio/security/visible"
	"symbio/skills"
	"symbio/skills/format"
	"symbio/skills/share"
	"symbio/skills/trust"
)

// cmdSkillsFetch returns the command skills fetch. Without an argument it lists fetched skills,
// with NODE those that the node shares, and with NODE/NAME it fetches one. A fetched skill is not
// used before it is trusted.
func cmdSkillsFetch(env *command.Env) *cobra.Command {
	var remove, hash string
	cmd := &cobra.Command{
		Use:  "fetch [NODE[/NAME]]",
		Args: command.RangeArgs(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case remove != "" && (len(args) > 0 || hash != ""):
				return command.Usage(errors.New("--remove allows no arguments and no --hash"))
			case hash != "" && !strings.Contains(strings.Join(args, ""), "/"):
				return command.Usage(errors.New("--hash needs one skill, named as NODE/NAME"))
			case remove != "":
				return removeFetched(cmd.Context(), env, remove)
			case len(args) == 0:
				return listFetched(env)
			}
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
// sets from to the node that answered.
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

// listShared prints the skills that another node shares.
func listShared(ctx context.Context, env *command.Env, on string) error {
	client, conn, err := env.Dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	list, err := share.List(ctx, peerCall(env, client, on, &symbiov1.CallReply{}))
	if err != nil {
		return err
	}
	return command.PrintList(env, list, []string{"NAME", "DESCRIPTION"}, func(s share.SkillSummary) []string {
		return []string{s.Name, visible.TruncateRunes(s.Description, 100)}
	})
}

// fetchSkill fetches one skill and stores it under the hash of all its files. With hash it is
// stored only if that is its hash. Fetching the same skill again changes nothing.
func fetchSkill(ctx context.Context, env *command.Env, on, name, hash string) error {
	client, conn, err := env.Dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	state, err := env.State()
	if err != nil {
		return err
	}
	var from symbiov1.CallReply
	// Fetch checks the hash, the format and the limits before anything is written.
	pack, err := share.Fetch(ctx, peerCall(env, client, on, &from), name, hash)
	if err != nil {
		return err
	}
	o, err := state.Skills().Store.Put(pack, from.GetNode(), from.GetNodeName())
	if err != nil {
		return err
	}
	if env.JSON {
		return env.PrintJSON(o)
	}
	return env.Printf("%s from node %s (%s): %d files, %d bytes\nsha256 %s\nIt is not used until you trust it: symbio skills trust %s\n",
		o.Name, o.NodeName, o.Node, o.Files, o.Bytes, o.Hash, o.Hash)
}

// fetchedJSON is a fetched skill. The JSON names are a contract.
type fetchedJSON struct {
	share.Origin
	Trust trust.State `json:"trust"`
}

// listFetched prints the fetched skills. One that cannot be read is listed as a proposal, with a
// note.
func listFetched(env *command.Env) error {
	state, err := env.State()
	if err != nil {
		return err
	}
	keeper := state.Skills()
	all, err := keeper.Store.List()
	if err != nil {
		return err
	}
	list := []fetchedJSON{}
	for _, o := range all {
		one := fetchedJSON{o, trust.Proposal}
		skill, _, hash, err := skills.LoadFull(keeper.Store.Dir(o.Hash, o.Name), format.Policy{})
		// The scope decides how trust is looked up; LoadFull cannot know it.
		skill.Scope = skills.ScopePeer
		if err == nil {
			one.Trust, err = keeper.State(skill, hash)
		}
		if err != nil {
			env.Notef("note: %s", err.Error())
		}
		list = append(list, one)
	}
	return command.PrintList(env, list, []string{"NAME", "SHA256", "FROM", "TRUST", "DESCRIPTION"}, func(o fetchedJSON) []string {
		return []string{o.Name, o.Hash, o.NodeName, string(o.Trust), visible.TruncateRunes(o.Description, 100)}
	})
}

// removeFetched deletes a fetched skill and every trust in it, and makes running nodes look at
// their skills again. hash is that of all its files.
func removeFetched(ctx context.Context, env *command.Env, hash string) error {
	state, err := env.State()
	if err != nil {
		return err
	}
	keeper := state.Skills()
	if err := keeper.Store.Remove(hash); err != nil {
		if errors.Is(err, share.ErrNotStored) {
			return command.NotFound(fmt.Errorf("%w; `symbio skills fetch` lists those that are", err))
		}
		return err
	}
	// Trust in a hash that is gone would hold again if the same skill were fetched later.
	records, err := keeper.Book.Records()
	for _, r := range records {
		if r.Tree == hash {
			err = errors.Join(err, keeper.Book.Remove(r.Dir, r.Hash))
		}
	}
	rescan(ctx, env)
	return err
}
