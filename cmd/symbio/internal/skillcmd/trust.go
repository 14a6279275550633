package skillcmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"symbio/cmd/symbio/internal/command"
	"symbio/cmd/symbio/internal/terminal"
	"symbio/internal/agent/node/proposal"
	"symbio/internal/security/visible"
	"symbio/internal/skills/share"
	"symbio/internal/skills/trust"
	symbiov1 "symbio/proto/symbio/v1"
	"symbio/skills"
)

// cmdSkillsTrust returns the command skills trust. A no has exit status 3. It needs no running
// node. Without a terminal it needs --hash.
func cmdSkillsTrust(env *command.Env) *cobra.Command {
	var list, revoke, grants bool
	var hash, file string
	cmd := &cobra.Command{
		Use:               "trust [NAME|PATH|HASH]",
		Args:              command.RangeArgs(0, 1),
		ValidArgsFunction: CompleteSkills(env),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case list && (len(args) > 0 || revoke || hash != ""):
				return command.Usage(errors.New("--list allows no arguments, no --revoke and no --hash"))
			case list:
				return listTrusted(env)
			case len(args) == 0:
				return command.Usage(errors.New("name a skill by its name, path or hash; `symbio skills list` shows those here"))
			case revoke:
				return revokeTrust(cmd.Context(), env, args[0])
			}
			here, err := loadSkills(env, file, "")
			if err != nil {
				return err
			}
			return trustSkill(cmd.Context(), env, here.cfg, args[0], hash, grants)
		},
	}
	cmd.Flags().BoolVar(&list, "list", false, "list the skills that you trust")
	cmd.Flags().BoolVar(&revoke, "revoke", false, "take the trust back")
	cmd.Flags().BoolVar(&grants, "grants", false, "with --hash: let a fetched skill have the rules that it asks for")
	cmd.Flags().StringVar(&hash, "hash", "", "trust without a question if `SHA256` matches")
	command.ConfigFlag(cmd, &file)
	return cmd
}

// trustSkill shows what a skill asks for and records the trust after a yes, or at once if hash is
// its hash. With --json and no hash it only prints, so that a script can look first.
//
// The record is for the SKILL.md that proposal.Of has read, by its SHA-256, so a file that is
// replaced while the person reads is not trusted. cfg says where skills are searched. The error has
// exit status 3 for a no or another hash, 2 without a terminal, and 4 when there is no such skill.
func trustSkill(ctx context.Context, env *command.Env, cfg skills.Config, arg, hash string, grants bool) error {
	keeper := env.State().Skills()
	p, err := proposal.Of(ctx, cfg, keeper, skillArg(arg))
	if err != nil {
		return err
	}
	// The records that can be read still count; a record that cannot be read is no trust.
	if p.BadBook != nil {
		env.Notef("note: %s", p.BadBook.Error())
	}
	// The skill has changed since the script's author looked at it, or it is another one.
	if hash != "" && hash != p.HashToTrust() {
		return command.Denied(fmt.Errorf("the SHA-256 of %s is %s, not %s: it is not trusted\nLook at it with: symbio skills trust %s --json", terminal.Printable(p.Name), p.HashToTrust(), terminal.Printable(hash), terminal.Printable(arg)))
	}
	// A script that asks with --json gets the hash to pass in the next call.
	if hash == "" && env.JSON {
		return env.PrintJSON(p)
	}
	if !env.JSON {
		if hash == "" {
			if err = env.Page(ctx, filesOf(p)); err != nil {
				return err
			}
			fmt.Fprintln(env.Out)
		}
		printProposed(env, p)
	}
	rules, yes, err := decideTrust(ctx, env, p, hash != "", grants)
	if err != nil {
		return err
	}
	if !yes {
		return command.Denied(errors.New("not trusted: you did not say yes"))
	}
	// For a fetched skill Trust verifies all files again before it writes the record.
	if err := keeper.Trust(p.Skill, p.SHA256, rules, p.Origin, p.Files); err != nil {
		return err
	}
	rescan(ctx, env)
	p.Trust = trust.Trusted
	if env.JSON {
		// The JSON shows the rules that were granted, not all that the skill asks for.
		p.Grants = append([]string{}, rules...)
		return env.PrintJSON(p)
	}
	return env.Printf("%s is trusted with: %s\n", p.Name, orNone(rules))
}

// decideTrust returns the rules to grant and whether the skill is trusted. scripted means that
// --hash matched. A person is asked two questions about a fetched skill: whether it may be used,
// and whether it may grant rules. Its error is a usage error without a terminal.
func decideTrust(ctx context.Context, env *command.Env, p proposal.Proposal, scripted, grants bool) (rules []string, yes bool, err error) {
	if scripted {
		// A fetched skill is trusted for use first; its rules are granted only on request.
		if p.Scope != skills.ScopePeer || grants {
			rules = p.Grants
		}
		return rules, true, nil
	}
	if !env.InIsTerminal {
		return nil, false, command.Usage(fmt.Errorf("the trust needs a yes, and there is no terminal to ask on\nTo trust exactly this: symbio skills trust %s --hash %s", cmp.Or(p.Hash, terminal.Printable(p.Name)), p.HashToTrust()))
	}
	ask := env.Confirm
	if p.Scope != skills.ScopePeer {
		// A skill of a project can be used with or without trust. The only question is about its
		// rules.
		yes, err = ask(ctx, "May the skill grant these rules to agents that activate it?")
		return p.Grants, yes, err
	}
	if yes, err = ask(ctx, "May agents use this skill?"); !yes || err != nil || len(p.Grants) == 0 {
		return nil, yes, err
	}
	// A no to this question keeps the skill usable, without any rule of its own.
	also, err := ask(ctx, "May it also grant the rules above?")
	if also {
		rules = p.Grants
	}
	return rules, true, err
}

// trustedJSON is a record of trust. The JSON names are a contract.
type trustedJSON struct {
	// Name is the name that the skill had then.
	Name string `json:"name"`
	// Path is the directory of the skill. It is absolute, and symbolic links in it are not
	// resolved.
	Path string `json:"path"`
	// SHA256 is the hash of the SKILL.md that was trusted.
	SHA256 string `json:"sha256"`
	// Hash is the hash of all files of a fetched skill, Node the node that it came from.
	Hash string `json:"hash,omitempty"`
	Node string `json:"node,omitempty"`
	// Grants are the rules that agents get when they activate the skill.
	Grants []string `json:"grants"`
	// Time is when it was trusted.
	Time time.Time `json:"time"`
}

// trustedOf returns a record as it stands in the output.
func trustedOf(r trust.Record) trustedJSON {
	return trustedJSON{r.Name, r.Dir, r.Hash, r.Tree, r.Node, r.Rules, r.Time}
}

// listTrusted prints all records of trust. Records that cannot be read are noted on standard error
// and left out.
func listTrusted(env *command.Env) error {
	records, err := env.State().Skills().Book.Records()
	if err != nil {
		env.Notef("note: %s", err.Error())
	}
	return command.PrintList(env, command.Map(records, trustedOf), []string{"NAME", "SCOPE", "SKILL.MD", "PATH", "GRANTS"},
		func(r trustedJSON) []string {
			// Only skills of a project and fetched ones need trust, and only a fetched one has a hash
			// of all files.
			from := "project"
			if r.Hash != "" {
				from = "peer"
			}
			return []string{r.Name, from, r.SHA256, r.Path, orNone(r.Grants)}
		})
}

// revokeTrust removes every record that the argument names: by name, path or hash. An agent that
// uses the skill now keeps its rules until it ends. Its exit status is 4 when no record matches.
func revokeTrust(ctx context.Context, env *command.Env, arg string) error {
	path := skillArg(arg)
	// The argument may be the path of the SKILL.md, of its directory, or a name.
	named := []string{arg, path, strings.TrimSuffix(path, string(filepath.Separator)+"SKILL.md")}
	gone, removeErr := removeTrust(env, func(r trust.Record) bool {
		return slices.Contains(named, r.Name) || slices.Contains(named, r.Dir) || arg == r.Hash || arg == r.Tree
	})
	removed := command.Map(gone, trustedOf)
	if len(removed) == 0 {
		return command.NotFound(errors.Join(fmt.Errorf("no trusted skill is called %q; `symbio skills trust --list` shows them", terminal.Printable(arg)), removeErr))
	}
	rescan(ctx, env)
	if env.JSON {
		return env.PrintJSON(removed)
	}
	for _, r := range removed {
		fmt.Fprintf(env.Out, "%s in %s is not trusted any more; an agent that has it active keeps its rules until it ends\n", terminal.Printable(r.Name), terminal.Printable(r.Path))
	}
	return removeErr
}

// removeTrust removes the records that match, and returns those that are gone. The error names the
// records that cannot be read or removed; they do not keep the others from being removed.
func removeTrust(env *command.Env, match func(trust.Record) bool) (gone []trust.Record, err error) {
	book := env.State().Skills().Book
	records, err := book.Records()
	for _, r := range slices.DeleteFunc(records, func(r trust.Record) bool { return !match(r) }) {
		if removeErr := book.Remove(r.Dir, r.Hash); removeErr != nil {
			err = errors.Join(err, fmt.Errorf("revoke the trust in %s: %w", r.Name, removeErr))
			continue
		}
		gone = append(gone, r)
	}
	return gone, err
}

// rescan makes this user's running nodes look at their skills again, and returns the names of those
// that did. An error is only noted: the node will see the change when it starts again. It blocks
// until every node has answered. Nodes of other directories are told, too, because skills of the
// user are visible to all.
func rescan(ctx context.Context, env *command.Env) (done []string) {
	state := env.State()
	names, err := state.Running()
	for _, name := range names {
		// One node that fails must not keep the others from the change.
		conn, dialErr := state.Node(name).Dial()
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
		fmt.Fprintln(env.Err, "note: a running node could not look for skills again:", command.ErrorText(ctx, err))
	}
	return done
}

// skillArg returns an argument as the catalog writes it: a name unchanged, a path absolute.
// Relative paths are resolved in the directory of the command, not in the node's.
func skillArg(arg string) string {
	if !strings.ContainsRune(arg, filepath.Separator) {
		return arg
	}
	if abs, err := filepath.Abs(arg); err == nil {
		return abs
	}
	return arg
}

// filesOf returns the texts that a person trusts: what has changed since the last time, then all of them.
func filesOf(p proposal.Proposal) string {
	var b strings.Builder
	switch {
	case p.Changes != "":
		fmt.Fprintf(&b, "== changed since %s, when you trusted it ==\n%s\n", p.Since.Local().Format(time.DateTime), p.Changes)
	case !p.Since.IsZero():
		fmt.Fprintf(&b, "== nothing has changed since %s, when you trusted it ==\n\n", p.Since.Local().Format(time.DateTime))
	}
	for _, f := range p.Files {
		kind := ""
		if f.Script {
			kind = ", a script"
		}
		fmt.Fprintf(&b, "== %s, %s%s ==\n", visible.Line(f.Path, 0), visible.Plural(int(f.Size), "byte"), kind)
		switch {
		case f.Text != "":
			b.WriteString(strings.TrimRight(f.Text, "\n") + "\n\n")
		case f.Script:
			b.WriteString("[It is not shown: it is no text, too long, or cannot be read.]\n\n")
		}
	}
	return b.String()
}

// printProposed prints what a skill asks for. Invisible characters are escaped, so that they cannot
// hide a rule. It writes to standard output. The rules stand below each other under one heading.
func printProposed(env *command.Env, p proposal.Proposal) {
	line := func(key, value string) { fmt.Fprintf(env.Out, "%-13s%s\n", key, visible.Escape(value)) }
	line("name", p.Name)
	line("description", p.Description)
	line("scope", string(p.Scope))
	line("path", p.Path)
	// A fetched skill has two hashes: one of all its files, which a person compares, and one of
	// its SKILL.md, under which the record is stored.
	if p.Hash != "" {
		line("from", fmt.Sprintf("node %s, %s, fetched %s", p.NodeName, p.Node, p.Origin.Fetched.Local().Format(time.DateTime)))
		line("sha256", p.Hash)
		line("SKILL.md", p.SHA256)
	} else {
		line("sha256", p.SHA256)
	}
	line("trust", trustLine(p.Trust, share.Origin{}))
	// The key stands before the first rule only.
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
	// A yes does not grant these rules.
	for _, r := range p.Refused {
		line("refused", r.Rule+": "+r.Why)
	}
	fmt.Fprintln(env.Out)
}

// orNone returns rules in one line. They are escaped, because a skill chooses their text.
func orNone(rules []string) string {
	if len(rules) == 0 {
		return "no rules"
	}
	return visible.Escape(strings.Join(rules, " "))
}

// trustOf returns what is known of the trust in a skill, and where it was fetched from. Errors are
// noted: the skill is shown all the same. A state of "" means that it is not known.
func trustOf(env *command.Env, s skills.Activation) (trust.State, share.Origin) {
	state := env.State()
	keeper := state.Skills()
	known, err := keeper.State(s.Skill, s.Hash)
	if err != nil {
		env.Notef("note: %s", err.Error())
	}
	var from share.Origin
	if s.Skill.Scope == skills.ScopePeer {
		// A fetched skill is stored in HASH/NAME, so the parent directory has the hash. Without a
		// readable origin the skill is shown without one.
		from, _ = keeper.Store.Find(filepath.Base(filepath.Dir(s.Skill.Dir)))
	}
	return known, from
}

// trustLine returns what a state of trust means, and where a fetched skill came from. An unknown
// state gives an empty text.
func trustLine(known trust.State, from share.Origin) string {
	text := map[trust.State]string{
		trust.Grants:   "not needed: its scope grants",
		trust.Trusted:  "trusted",
		trust.Changed:  "changed since it was trusted: it grants nothing until `symbio skills trust` is asked again",
		trust.Proposal: "not trusted yet: it grants nothing until a person trusts it",
	}[known]
	if from.Hash != "" {
		text += fmt.Sprintf("; from node %s (%s), sha256 %s", terminal.Printable(from.NodeName), terminal.Printable(from.Node), from.Hash)
	}
	return text
}
