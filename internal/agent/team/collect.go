package team

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	_ "embed"

	"symbio/agent/tool"
	"symbio/community"
	"symbio/internal/agent/content"
	"symbio/internal/agent/workspace"
	"symbio/internal/security/visible"
)

//go:embed collect_work.md
var collectText string

// collectArgs are the arguments of collect_work. Models read the descriptions in the tags.
type collectArgs struct {
	Agent         string `json:"agent" jsonschema:"the agent_id or name of one of your sub-agents that has a workspace"`
	Apply         bool   `json:"apply,omitempty" jsonschema:"true = make the changes in your files; absent = only tell what they are"`
	SkipConflicts bool   `json:"skip_conflicts,omitempty" jsonschema:"with apply: leave out the files with conflicts, instead of applying nothing"`
}

// collectTool runs its calls one after the other, because each compares with the files that the one
// before has left.
var collectTool = tool.NewKind[collectArgs](tool.Spec{Name: "collect_work", Description: collectText, Alone: true})

const (
	// maxListed is how many files a result names: enough for a model to work with.
	maxListed = 200
	// maxDiff bounds the diff that a person is shown, in bytes, as builtin bounds the diff of a file.
	maxDiff = 64 << 10
)

// changedFile is a file in the result of collect_work. Models read it.
type changedFile struct {
	Path     string `json:"path"`
	Change   string `json:"change"`
	Added    int    `json:"lines_added,omitempty"`
	Removed  int    `json:"lines_removed,omitempty"`
	Conflict string `json:"conflict,omitempty"`
}

// workSummary is the result of collect_work. Models read it.
type workSummary struct {
	AgentID   community.MemberID `json:"agent_id"`
	Name      string             `json:"name"`
	Applied   bool               `json:"applied"`
	Files     []changedFile      `json:"files"`
	MoreFiles int                `json:"more_files,omitempty"`
	Conflicts int                `json:"conflicts,omitempty"`
	NotTaken  string             `json:"not_taken,omitempty"`
	Note      string             `json:"note,omitempty"`
}

// collect fetches the work of a sub-agent and, with Apply, writes it into the parent's directory.
func (t *Team) collect(ctx context.Context, args collectArgs) tool.Result {
	some, err := t.find([]string{args.Agent})
	if err != nil {
		return errorResult(err)
	}
	c := some[0]
	if c.Workspace == nil {
		return errorResult(fmt.Errorf("%s has no workspace of its own: it works in the directory of its node", c.Member.Name))
	}
	client := c.Workspace.Client(ctx)
	plan, left, err := c.Workspace.Plan(ctx, client, c.Member.ID, tool.Dir(ctx))
	if err != nil {
		if gone := c.Handle.Gone(); gone != nil {
			err = fmt.Errorf("%s is gone, and its changes with it: %w", c.Member.Name, gone)
		}
		return errorResult(fmt.Errorf("the work of %s was not fetched: %w", c.Member.Name, err))
	}
	reply := workSummary{AgentID: c.Member.ID, Name: c.Member.Name, Conflicts: len(plan.Conflicts()), NotTaken: left}
	reply.Files, reply.MoreFiles = summary(plan)
	steps := Writes(plan)
	switch {
	case len(steps) == 0 && reply.Conflicts == 0:
		reply.Note = "Your files have all of its changes."
		t.setCollected(c)
		return tool.JSON(reply)
	case !args.Apply:
		return tool.JSON(reply)
	case reply.Conflicts > 0 && !args.SkipConflicts:
		reply.Note = "Nothing was applied, because of the conflicts."
		return tool.JSON(reply)
	}
	diff := Diff(steps, maxDiff)
	if err := apply(ctx, plan, steps, args.SkipConflicts, diff); err != nil {
		return errorResult(fmt.Errorf("nothing of %s was applied: %w", c.Member.Name, err))
	}
	reply.Applied = true
	t.setCollected(c)
	r := tool.JSON(reply)
	r.Change = tool.FileDiff{File: visible.Plural(len(steps), "file") + " of " + c.Member.Name, Diff: diff}
	return r
}

// apply writes the steps as a Write of the parent: it may if it may write each file, and each change is
// recorded so that it can be undone.
func apply(ctx context.Context, p *workspace.Plan, steps []workspace.Step, partial bool, diff string) error {
	var files []string
	for _, s := range steps {
		files = append(files, s.Path)
	}
	if err := tool.Authorize(ctx, "Write", files, func() string { return diff }); err != nil {
		return err
	}
	for _, s := range steps {
		if err := tool.RecordEdit(ctx, func() (tool.FileEdit, error) { return edit(tool.Dir(ctx), s) }); err != nil {
			return err
		}
	}
	return p.Apply(ctx, partial)
}

// edit describes a step for its record. The plan has found no link on the way to the file.
func edit(dir string, s workspace.Step) (e tool.FileEdit, err error) {
	dir, err = filepath.EvalSymlinks(dir)
	e = tool.FileEdit{Path: filepath.Join(dir, filepath.FromSlash(s.Path)), Before: hashOf(s.Before), After: hashOf(s.After)}
	if err != nil || e.Before == "" || s.Before.Size > tool.MaxKept {
		return e, err
	}
	info, err := os.Lstat(e.Path)
	if err == nil && !info.Mode().IsRegular() {
		err = workspace.ErrChanged
	}
	if err == nil {
		e.Mode = info.Mode().Perm()
		e.Content, err = os.ReadFile(e.Path)
	}
	if err == nil && content.Sum(e.Content) != s.Before.Hash {
		err = workspace.ErrChanged
	}
	return e, err
}

// hashOf returns the hash of a file's content in hex; "" for no file, and for a link, which is not kept.
func hashOf(f workspace.File) string {
	if f.Hash == (content.Hash{}) {
		return ""
	}
	return f.Hash.String()
}

// summary returns the changes and conflicts of a plan, and how many are beyond maxListed.
func summary(p *workspace.Plan) (files []changedFile, more int) {
	files = []changedFile{}
	for _, s := range p.Steps {
		switch {
		case s.Action == workspace.Same && s.Conflict == "":
		case len(files) == maxListed:
			more++
		default:
			f := changedFile{Path: s.Path, Change: string(s.Action), Conflict: s.Conflict}
			f.Added, f.Removed = countLines(s.Diff)
			files = append(files, f)
		}
	}
	return files, more
}

// countLines counts the lines that a unified diff adds and removes.
func countLines(diff string) (added, removed int) {
	_, hunks, _ := strings.Cut(diff, "\n@@")
	return strings.Count(hunks, "\n+"), strings.Count(hunks, "\n-")
}

// omission returns the sentences for the model about files and skills that a sub-agent did not get; ""
// if it has all.
func (c *Child) omission() string {
	text := c.Workspace.Omission()
	if text == "" {
		return c.Omitted
	}
	return strings.TrimSuffix(text+"; "+c.Omitted, "; ")
}
