package skillcmd

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"symbio/cmd/symbio/internal/command"
	"symbio/internal/security/visible"
	"symbio/internal/skills/share"
	symbiov1 "symbio/proto/symbio/v1"
)

// nodeTime limits how long one node is asked for its skills. Their hashes take a call each; those
// that are not there in time stay empty.
const nodeTime = 10 * time.Second

// nodeSkill is a skill that a node has. The JSON names are a contract.
type nodeSkill struct {
	Name string `json:"name"`
	Node string `json:"node"`
	// State is the scope of a skill of this node, and shared for one of another node.
	State       string `json:"state"`
	Description string `json:"description"`
	// Hash is the hash of all files; "" if it is not known. Same are the nodes with the same content.
	Hash string   `json:"hash,omitempty"`
	Same []string `json:"same,omitempty"`
}

// listAllNodes prints the skills of this node and those that connected nodes share with it. Nodes
// that share none, refuse, or cannot be reached are notes on standard error.
func listAllNodes(ctx context.Context, env *command.Env) error {
	client, conn, err := env.Nodes().DialWorkspace(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	reply, err := client.Nodes(ctx, &symbiov1.NodesRequest{})
	if err != nil {
		return err
	}
	nodes := reply.GetNodes()
	lists, errs := make([][]nodeSkill, len(nodes)), make([]error, len(nodes))
	var g errgroup.Group
	g.SetLimit(8)
	for i, n := range nodes {
		g.Go(func() error {
			switch n.GetState() {
			case "self":
				lists[i], errs[i] = ownSkills(ctx, client, n.GetName())
			case "connected":
				lists[i], errs[i] = sharedSkills(ctx, peerCall(env, client, n.GetId(), &symbiov1.CallReply{}), n.GetName())
			default:
				errs[i] = fmt.Errorf("%s: %s", n.GetState(), n.GetWhy())
			}
			return nil
		})
	}
	_ = g.Wait() // errs has the errors
	for i, n := range nodes {
		if errs[i] != nil {
			env.Notef("note: %s: %s", n.GetName(), command.ErrorText(ctx, errs[i]))
		}
	}
	all := slices.Concat(lists...)
	compareContents(all)
	slices.SortStableFunc(all, func(a, b nodeSkill) int { return strings.Compare(a.Name, b.Name) })
	return command.PrintList(env, all, []string{"NAME", "NODE", "STATE", "HASH", "SAME ON", "DESCRIPTION"}, func(s nodeSkill) []string {
		return []string{s.Name, s.Node, s.State, s.Hash[:min(12, len(s.Hash))], strings.Join(s.Same, ","), visible.TruncateRunes(s.Description, 100)}
	})
}

// compareContents sets Same of all skills.
func compareContents(all []nodeSkill) {
	holders := map[string][]string{}
	for _, s := range all {
		holders[s.Hash] = append(holders[s.Hash], s.Node)
	}
	for i, s := range all {
		if s.Hash != "" {
			others := slices.DeleteFunc(slices.Clone(holders[s.Hash]), func(node string) bool { return node == s.Node })
			all[i].Same = slices.Compact(others) // skills are in the order of their nodes
		}
	}
}

// ownSkills returns the skills of the running node. Those inside the program have no hash.
func ownSkills(ctx context.Context, client symbiov1.ControlClient, name string) ([]nodeSkill, error) {
	reply, err := client.Skills(ctx, &symbiov1.SkillsRequest{})
	var all []nodeSkill
	for _, s := range reply.GetSkills() {
		one := nodeSkill{Name: s.GetName(), Node: name, State: s.GetScope(), Description: s.GetDescription()}
		if pack, err := share.Read(filepath.Dir(s.GetPath())); err == nil {
			one.Hash = pack.Hash()
		}
		all = append(all, one)
	}
	return all, err
}

// sharedSkills returns the skills that another node shares.
func sharedSkills(ctx context.Context, call share.Call, name string) (all []nodeSkill, err error) {
	ctx, cancel := context.WithTimeout(ctx, nodeTime)
	defer cancel()
	list, err := share.List(ctx, call)
	for _, s := range list {
		one := nodeSkill{Name: s.Name, Node: name, State: "shared", Description: s.Description}
		if m, err := share.FetchManifest(ctx, call, s.Name); err == nil {
			one.Hash = m.Hash()
		}
		all = append(all, one)
	}
	return all, err
}
