package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	symbiov1 "symbio/proto/symbio/v1"
	"symbio/skills"
	"symbio/skills/trust"
)

func (a *App) cmdSkillsTrust() *cobra.Command {
	var list, revoke, grants bool
	var hash, file string
	cmd := &cobra.Command{
		Use:   "trust [NAME|PATH|HASH]",
		Short: "Let a skill of a project, or of another node, have what it asks for",
		Long: `Show what a skill asks for and, after a yes, remember that you trust it. A skill of a project grants
nothing until you do; a skill that was fetched from another node is not used at all until you do, and the
rules that it asks for are a question of their own.

What you trust is what is shown: the SKILL.md with that SHA-256, in that place, with those rules. When it
changes you are asked again. A script gives the hash with --hash, and trusts nothing else than that; the
rules of a fetched skill it takes with --grants.`,
		Example: `  symbio skills trust release-notes
  symbio skills trust release-notes --json                 # shows, asks nothing
  symbio skills trust release-notes --hash 5f1d…           # in a script
  symbio skills trust --list
  symbio skills trust --revoke release-notes`,
		Args:              rangeArgs(0, 1),
		ValidArgsFunction: a.completeSkills,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case list && (len(args) > 0 || revoke || hash != ""):
				return usage(errors.New("--list stands alone"))
			case list:
				return a.listTrusted()
			case len(args) == 0:
				return usage(errors.New("which skill? Give its name, its path or its hash; `symbio skills list` shows those here"))
			case revoke:
				return a.revokeTrust(cmd.Context(), args[0])
			}
			cfg, err := a.skillsConfig(file)
			if err != nil {
				return err
			}
			return a.trustSkill(cmd.Context(), cfg, args[0], hash, grants)
		},
	}
	cmd.Flags().BoolVar(&list, "list", false, "list what is trusted")
	cmd.Flags().BoolVar(&revoke, "revoke", false, "trust it no longer")
	cmd.Flags().BoolVar(&grants, "grants", false, "with --hash: a fetched skill may have the rules that it asks for, too")
	cmd.Flags().StringVar(&hash, "hash", "", "trust without asking, if this is its SHA-256")
	cmd.Flags().StringVar(&file, "config", "", "configuration file")
	return cmd
}

func (a *App) trustSkill(ctx context.Context, cfg skills.Config, arg, hash string, grants bool) error {
	state, err := a.state()
	if err != nil {
		return err
	}
	keeper := state.Skills()
	p, err := a.propose(ctx, cfg, keeper, arg)
	if err != nil {
		return err
	}
	if hash != "" && hash != p.hashToTrust() {
		return &statusError{exitDenied, fmt.Errorf("the SHA-256 of %s is %s, not %s: it is not trusted\nLook at it with: symbio skills trust %s --json", printable(p.Name), p.hashToTrust(), printable(hash), printable(arg))}
	}
	if hash == "" && a.json {
		return a.printJSON(p)
	}
	if !a.json {
		a.printProposed(p)
	}
	rules, yes, err := a.decideTrust(p, hash != "", grants)
	if err != nil {
		return err
	}
	if !yes {
		return &statusError{exitDenied, errors.New("not trusted")}
	}
	if err := keeper.Trust(p.skill, p.SHA256, rules, p.origin); err != nil {
		return err
	}
	a.rescan(ctx)
	p.Trust = trust.Trusted
	if a.json {
		p.Grants = append([]string{}, rules...)
		return a.printJSON(p)
	}
	_, err = fmt.Fprintf(a.Out, "%s is trusted with: %s\n", printable(p.Name), orNone(rules))
	return err
}

// decideTrust asks the person, unless a script has said which hash it trusts.
func (a *App) decideTrust(p proposed, scripted, grants bool) (rules []string, yes bool, err error) {
	if scripted {
		if p.Scope != skills.ScopePeer || grants {
			rules = p.Grants
		}
		return rules, true, nil
	}
	if !a.InIsTerminal {
		return nil, false, usage(fmt.Errorf("there is nobody to ask here\nTo trust exactly this: symbio skills trust %s --hash %s", p.hashToTrustArg(), p.hashToTrust()))
	}
	answers := a.typed()
	ask := func(question string) (bool, error) {
		fmt.Fprintf(a.Err, "%s [y/N] ", question)
		line, err := answers(context.Background())
		said := strings.ToLower(strings.TrimSpace(line))
		return said == "y" || said == "yes", err
	}
	if p.Scope != skills.ScopePeer {
		yes, err = ask("May the skill grant these to the agents that take it?")
		return p.Grants, yes, err
	}
	if yes, err = ask("May agents use this skill?"); !yes || err != nil || len(p.Grants) == 0 {
		return nil, yes, err
	}
	also, err := ask("May it also grant the rules above?")
	if also {
		rules = p.Grants
	}
	return rules, true, err
}

// trustedJSON is a record in the output; the names are a contract.
type trustedJSON struct {
	Name   string    `json:"name"`
	Path   string    `json:"path"`
	SHA256 string    `json:"sha256"`
	Hash   string    `json:"hash,omitempty"`
	Node   string    `json:"node,omitempty"`
	Grants []string  `json:"grants"`
	Time   time.Time `json:"time"`
}

func (a *App) listTrusted() error {
	state, err := a.state()
	if err != nil {
		return err
	}
	records, err := state.Skills().Book.Records()
	if err != nil {
		fmt.Fprintln(a.Err, "note:", printable(err.Error()))
	}
	list := []trustedJSON{}
	rows := [][]string{}
	for _, r := range records {
		list = append(list, trustedJSON{r.Name, r.Dir, r.Hash, r.Tree, r.Node, r.Rules, r.Time})
		from := "project"
		if r.Tree != "" {
			from = "peer"
		}
		rows = append(rows, []string{r.Name, from, r.Hash, r.Dir, orNone(r.Rules)})
	}
	if a.json {
		return a.printJSON(list)
	}
	return a.table([]string{"NAME", "SCOPE", "SKILL.MD", "PATH", "GRANTS"}, rows)
}

// revokeTrust forgets every record that the argument names.
func (a *App) revokeTrust(ctx context.Context, arg string) error {
	state, err := a.state()
	if err != nil {
		return err
	}
	book := state.Skills().Book
	records, listErr := book.Records()
	path := skillArg(arg)
	named := []string{arg, path, strings.TrimSuffix(path, string(filepath.Separator)+"SKILL.md")}
	var gone []trustedJSON
	for _, r := range records {
		if !slices.Contains(named, r.Name) && !slices.Contains(named, r.Dir) && arg != r.Hash && arg != r.Tree {
			continue
		}
		if err := book.Remove(r.Dir, r.Hash); err != nil {
			return fmt.Errorf("revoke the trust in %s: %w", r.Name, err)
		}
		gone = append(gone, trustedJSON{r.Name, r.Dir, r.Hash, r.Tree, r.Node, r.Rules, r.Time})
	}
	if len(gone) == 0 {
		return notFound(errors.Join(fmt.Errorf("nothing that is trusted is called %q; `symbio skills trust --list` shows what is", printable(arg)), listErr))
	}
	a.rescan(ctx)
	if a.json {
		return a.printJSON(gone)
	}
	for _, r := range gone {
		fmt.Fprintf(a.Out, "%s in %s is trusted no longer; an agent that uses it now keeps what it was granted until it ends\n", printable(r.Name), printable(r.Path))
	}
	return listErr
}

// rescan has this user's running nodes look at their skills again, and names those that have. A node that
// cannot will at its next start.
func (a *App) rescan(ctx context.Context) (done []string) {
	state, err := a.state()
	if err != nil {
		return nil
	}
	names, err := state.Running()
	for _, name := range names {
		conn, dialErr := state.Dial(name)
		if dialErr != nil {
			err = errors.Join(err, dialErr)
			continue
		}
		_, callErr := symbiov1.NewControlClient(conn).Skills(ctx, &symbiov1.SkillsRequest{Rescan: true})
		if callErr == nil {
			done = append(done, name)
		}
		err = errors.Join(err, callErr, conn.Close())
	}
	if err != nil {
		fmt.Fprintln(a.Err, "note: a running node has not looked at its skills again:", words(ctx, err))
	}
	return done
}
