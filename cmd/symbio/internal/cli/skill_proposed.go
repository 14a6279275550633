package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"symbio/skills"
	"symbio/skills/share"
	"symbio/skills/trust"
)

// proposed is a skill as a person is shown it. The names are a contract.
type proposed struct {
	Name        string            `json:"name"`
	Description string            `json:"description"`
	Scope       skills.Scope      `json:"scope"`
	Path        string            `json:"path"`
	SHA256      string            `json:"sha256"`         // of the SKILL.md
	Hash        string            `json:"hash,omitempty"` // of a fetched skill, all of it
	Node        string            `json:"node,omitempty"` // where it came from
	NodeName    string            `json:"node_name,omitempty"`
	Trust       trust.State       `json:"trust"`
	Grants      []string          `json:"grants"` // what it may be trusted with
	Refused     []skills.Withheld `json:"refused"`
	Notes       []string          `json:"notes"`

	skill  skills.Skill
	origin share.Origin
}

// hashToTrust is the one that a person compares: of a fetched skill that of all of it.
func (p proposed) hashToTrust() string {
	if p.Hash != "" {
		return p.Hash
	}
	return p.SHA256
}

// propose reads a skill once; all that is shown and kept is of that reading.
func (a *App) propose(ctx context.Context, cfg skills.Config, keeper trust.Keeper, arg string) (proposed, error) {
	var p proposed
	dir, scope := "", skills.ScopePeer
	if share.ValidHash(arg) {
		o, err := keeper.Store.Find(arg)
		if err != nil {
			return p, notFound(err)
		}
		if err := keeper.Store.Verify(arg); err != nil {
			return p, err
		}
		p.origin, dir = o, keeper.Store.Dir(o.Hash, o.Name)
	} else {
		catalog, err := skills.Scan(ctx, cfg)
		if err != nil {
			return p, err
		}
		found, err := catalog.Find(skillArg(arg))
		if errors.Is(err, skills.ErrNotFound) {
			return p, notFound(fmt.Errorf("%w; `symbio skills list` shows the skills here, `symbio skills fetch` those of other nodes", err))
		}
		if err != nil {
			return p, err
		}
		if found.Scope.Grants() {
			return p, usage(fmt.Errorf("%s is of scope %s: it grants what it asks for without being trusted", printable(found.Name), found.Scope))
		}
		dir, scope = found.Dir, found.Scope
		if scope == skills.ScopePeer {
			if p.origin, err = keeper.Store.Find(filepath.Base(filepath.Dir(dir))); err != nil {
				return p, err
			}
		}
	}
	skill, _, hash, err := skills.Inspect(dir, scope, cfg.Policy)
	if err != nil {
		return p, err
	}
	p.skill, p.Name, p.Description, p.Scope, p.Path, p.SHA256 = skill, skill.Name, skill.Description, scope, skill.Path, hash
	p.Hash, p.Node, p.NodeName = p.origin.Hash, p.origin.Node, p.origin.NodeName
	p.Grants, p.Refused = []string{}, []skills.Withheld{}
	for _, r := range skill.Manifest.Grants {
		p.Grants = append(p.Grants, r.String())
	}
	for _, r := range skill.Refused {
		p.Refused = append(p.Refused, skills.Withheld(r))
	}
	p.Notes = append([]string{}, trust.Notes(p.Grants, p.Hash != "")...)
	p.Trust, err = keeper.State(skill, hash)
	if err != nil {
		fmt.Fprintln(a.Err, "note:", printable(err.Error()))
	}
	return p, nil
}

// skillArg is a name as it is, and a path as the catalog writes it.
func skillArg(arg string) string {
	if !strings.ContainsRune(arg, filepath.Separator) {
		return arg
	}
	if abs, err := filepath.Abs(arg); err == nil {
		return abs
	}
	return arg
}

func (p proposed) hashToTrustArg() string {
	if p.Hash != "" {
		return p.Hash
	}
	return printable(p.Name)
}

func (a *App) printProposed(p proposed) {
	line := func(key, value string) { fmt.Fprintf(a.Out, "%-13s%s\n", key, visible(value)) }
	line("name", p.Name)
	line("description", p.Description)
	line("scope", string(p.Scope))
	line("path", p.Path)
	if p.Hash != "" {
		line("from", fmt.Sprintf("node %s, %s, fetched %s", p.NodeName, p.Node, p.origin.Fetched.Local().Format(time.DateTime)))
		line("sha256", p.Hash)
		line("SKILL.md", p.SHA256)
	} else {
		line("sha256", p.SHA256)
	}
	line("trust", string(p.Trust))
	key := "asks for"
	for _, r := range p.Grants {
		line(key, r)
		key = ""
	}
	if len(p.Grants) == 0 {
		line(key, "nothing")
	}
	for _, n := range p.Notes {
		line("note", n)
	}
	for _, r := range p.Refused {
		line("refused", r.Rule+": "+r.Why)
	}
	fmt.Fprintln(a.Out)
}

func orNone(rules []string) string {
	if len(rules) == 0 {
		return "no rules"
	}
	return visible(strings.Join(rules, " "))
}

// stateOf is what is known of the trust in a skill that was activated to be shown.
func (a *App) stateOf(s skills.Activation) (trust.State, share.Origin) {
	state, err := a.state()
	if err != nil {
		return "", share.Origin{}
	}
	keeper := state.Skills()
	known, err := keeper.State(s.Skill, s.Hash)
	if err != nil {
		fmt.Fprintln(a.Err, "note:", printable(err.Error()))
	}
	var from share.Origin
	if s.Skill.Scope == skills.ScopePeer {
		from, _ = keeper.Store.Find(filepath.Base(filepath.Dir(s.Skill.Dir))) // else it is shown without
	}
	return known, from
}

// trustLine says what a state of trust means, and where a fetched skill came from.
func trustLine(known trust.State, from share.Origin) string {
	text := map[trust.State]string{
		trust.Grants:   "not needed: its scope grants",
		trust.Trusted:  "trusted",
		trust.Changed:  "changed since it was trusted: it grants nothing until `symbio skills trust` is asked again",
		trust.Proposal: "proposal: it grants nothing until a person trusts it",
	}[known]
	if from.Hash != "" {
		text += fmt.Sprintf("; from node %s (%s), sha256 %s", printable(from.NodeName), printable(from.Node), from.Hash)
	}
	return text
}
