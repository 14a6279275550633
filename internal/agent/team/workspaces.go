package team

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"symbio/agent/event"
	"symbio/agent/tool"
	"symbio/community"
	"symbio/internal/agent/content"
	"symbio/internal/agent/workspace"
	"symbio/internal/agent/workspace/transfer"
	"symbio/internal/security/visible"
)

// Workspaces makes sub-agents, here and on other nodes, copies of the files to work in. A nil one makes none. It is safe for
// concurrent use.
type Workspaces struct {
	// Server sends workspaces to other nodes, takes theirs, and makes directories of them.
	Server *transfer.Server
	// Open returns the tools for a directory that was made of a workspace, whose commands see
	// no other files of the node's user, and the function that closes them.
	Open func(c *transfer.Checkout) ([]tool.Tool, func() error, error)

	leftovers workspace.Leftovers
	occupied  occupancy
}

// Workspace is the copy of the parent's files that a sub-agent works in.
type Workspace struct {
	// Base are the files as they were when the sub-agent got them.
	Base workspace.Manifest
	// Omitted are the files that it did not get.
	Omitted []workspace.Omission
	// Server is this node's; Call calls the one of the node where the sub-agent works.
	Server *transfer.Server
	Call   func(context.Context, []byte) ([]byte, error)
}

// Client returns what sends and fetches files, for the call of a tool that ctx belongs to.
func (w *Workspace) Client(ctx context.Context) *transfer.Client {
	return w.Server.Client(w.Call, func(p community.Progress) { tool.Report(ctx, p) })
}

// Omission names the first files that did not go along, and says why; "" if all did. It may be called on nil.
func (w *Workspace) Omission() string {
	if w == nil || len(w.Omitted) == 0 {
		return ""
	}
	var first []string
	for _, o := range w.Omitted[:min(len(w.Omitted), 10)] {
		first = append(first, fmt.Sprintf("%s (%s)", visible.Line(o.Path, 200), o.Why))
	}
	return fmt.Sprintf("%s of yours did not go along: %s", visible.Plural(len(w.Omitted), "file"), strings.Join(first, ", "))
}

// Plan fetches with client what the agent has changed, and compares it with the files in dir as they are now. left are its changes
// that do not travel.
func (w *Workspace) Plan(ctx context.Context, client *transfer.Client, member community.MemberID, dir string) (_ *workspace.Plan, left string, err error) {
	work, err := client.Fetch(ctx, member, w.Base)
	if err != nil {
		return nil, "", err
	}
	plan, err := work.Patch.Plan(ctx, w.Base, dir, work.Store)
	if err != nil || len(plan.Missing) == 0 {
		return plan, work.Left, err
	}
	if err := client.FetchContents(ctx, work, w.Base.Files, plan.Missing); err != nil {
		return nil, "", err
	}
	plan, err = work.Patch.Plan(ctx, w.Base, dir, work.Store)
	return plan, work.Left, err
}

// Writes returns the steps that change a file.
func Writes(p *workspace.Plan) (all []workspace.Step) {
	for _, s := range p.Steps {
		if s.Conflict == "" && s.Action != workspace.Same {
			all = append(all, s)
		}
	}
	return all
}

// Diff returns the diffs of all steps, for people, up to most bytes. A file without one is named.
func Diff(steps []workspace.Step, most int) string {
	var b strings.Builder
	for _, s := range steps {
		if s.Diff != "" {
			b.WriteString(s.Diff)
		} else {
			fmt.Fprintf(&b, "\\ %s: %s, %s that are no text\n", s.Action, visible.Line(s.Path, 200), visible.Plural(int(s.After.Size), "byte"))
		}
		if b.Len() > most {
			return visible.Prefix(b.String(), most) + "\n\\ the rest of the difference is left out\n"
		}
	}
	return b.String()
}

// maxPatch bounds the difference in an event, in bytes: a person keeps it in a file.
const maxPatch = 16 << 20

// Patch returns a plan as an event tells it, without files that are the same.
func Patch(plan *workspace.Plan) event.Patch {
	p := event.Patch{Diff: Diff(Writes(plan), maxPatch)}
	for _, s := range plan.Steps {
		if s.Action != workspace.Same || s.Conflict != "" {
			p.Files = append(p.Files, event.PatchedFile{Path: s.Path, Change: string(s.Action), Conflict: s.Conflict})
		}
	}
	return p
}

// OwnWorkspace is a directory that was made for one agent, with the tools for it.
type OwnWorkspace struct {
	*transfer.Checkout
	Tools      []tool.Tool
	closeTools func() error
}

// Close closes the tools and removes the directory. It may be called more than once, and on nil.
func (w *OwnWorkspace) Close() error {
	if w == nil {
		return nil
	}
	return errors.Join(w.closeTools(), w.Checkout.Close())
}

// errNoWorkspaces is the error of a nil Workspaces.
var errNoWorkspaces = community.Explain(community.ErrUnavailable, "the node gives no agent a workspace of its own")

// Checkout makes a workspace that a node has sent, "" = this one, and opens it. The caller must call Close.
func (w *Workspaces) Checkout(ctx context.Context, node community.NodeID, manifest content.Hash) (*OwnWorkspace, error) {
	if w == nil {
		return nil, errNoWorkspaces
	}
	c, err := w.Server.Checkout(ctx, node, manifest)
	if err != nil {
		return nil, err
	}
	tools, closeTools, err := w.Open(c)
	if err != nil {
		return nil, errors.Join(community.Explain(community.ErrUnavailable, "its workspace cannot be opened there"), err, c.Close())
	}
	return &OwnWorkspace{c, tools, closeTools}, nil
}

// Send sends the files of dir, without those that are denied, to a node, which call calls; the zero Member is this node. The other
// side makes a workspace of the files by the hash.
func (w *Workspaces) Send(ctx context.Context, dir string, denied func(path string) bool, node community.Member,
	call func(context.Context, []byte) ([]byte, error)) (hash content.Hash, sent *Workspace, err error) {
	if w == nil {
		return hash, nil, errNoWorkspaces
	}
	taken, err := workspace.Take(ctx, dir, workspace.Options{Denied: denied})
	if err != nil {
		return hash, nil, err
	}
	sent = &Workspace{Base: taken.Manifest, Omitted: taken.Omitted, Server: w.Server, Call: w.Server.Local}
	if node.ID != "" {
		sent.Call = call
	}
	if hash, err = sent.Client(ctx).Push(ctx, taken); err != nil && node.ID != "" {
		err = fmt.Errorf("send the workspace to node %s: %w", node.Name, err)
	}
	return hash, sent, err
}

// RemoveLeftovers removes the leftovers in a directory of a patch that a crash has ended. It returns the paths of those that it
// leaves, as workspace.Leftovers does.
func (w *Workspaces) RemoveLeftovers(dir string) (kept []string) {
	if w == nil {
		return nil
	}
	return w.leftovers.Remove(dir)
}
