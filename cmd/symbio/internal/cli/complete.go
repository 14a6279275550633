package cli

import (
	"bytes"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"symbio/cmd/symbio/internal/command"
	"symbio/cmd/symbio/internal/skillcmd"
	"symbio/cmd/symbio/internal/tui"
	"symbio/internal/security/visible"
)

// completeTask returns a function that completes the last word of a task in a shell, as chat does: files behind @, skills
// behind $. It stays silent on errors.
func completeTask(env *command.Env) cobra.CompletionFunc {
	skills := skillcmd.CompleteSkills(env)
	return func(cmd *cobra.Command, args []string, begun string) (found []cobra.Completion, _ cobra.ShellCompDirective) {
		// Without quotes bash takes @ for a word of its own.
		split := ""
		if slices.Equal(args, []string{"@"}) {
			args, begun, split = nil, "@"+begun, "@"
		}
		word := begun[strings.LastIndexAny(begun, " \n")+1:]
		before := strings.TrimPrefix(strings.TrimSuffix(begun, word), split)
		switch {
		case len(args) > 0 || word == "":
		case word[0] == '@':
			for _, name := range tui.Files(cmd.Context(), ".") {
				if strings.HasPrefix(name, word[1:]) && !strings.Contains(name, " ") && visible.Escape(name) == name {
					found = append(found, before+strings.TrimPrefix("@"+name, split))
				}
			}
		case word[0] == '$':
			names, _ := skills(cmd, nil, word[1:])
			for _, name := range names {
				found = append(found, before+"$"+name)
			}
		}
		return found, cobra.ShellCompDirectiveNoFileComp
	}
}

// inOpenQuote is what bash does with the completions of a word whose quote is still open: it compares them with what is behind
// the quote, and inserts them as they are.
const inOpenQuote = `    if [[ ${cur} == [\'\"]* ]]; then
        local one
        while IFS= read -r one; do
            one=${one%%$'\t'*}
            [[ ${one} == "${cur:1}"* ]] && COMPREPLY+=("${one}")
        done <<< "${out}"
        ((${#COMPREPLY[@]})) && return
    fi
`

// completeQuoted makes the scripts of completion for bash and zsh work in a word whose quote is still open, as a task's is:
// cobra's functions evaluate the line as it is, which fails there.
func completeQuoted(completion *cobra.Command) {
	for _, c := range completion.Commands() {
		generate := map[string]func(*cobra.Command, *bytes.Buffer, bool) error{
			"bash": func(root *cobra.Command, b *bytes.Buffer, help bool) error { return root.GenBashCompletionV2(b, help) },
			"zsh": func(root *cobra.Command, b *bytes.Buffer, help bool) error {
				if help {
					return root.GenZshCompletion(b)
				}
				return root.GenZshCompletionNoDesc(b)
			},
		}[c.Name()]
		if generate == nil {
			continue
		}
		c.RunE = func(cmd *cobra.Command, _ []string) error {
			var script bytes.Buffer
			plain, err := cmd.Flags().GetBool("no-descriptions")
			if err == nil {
				err = generate(cmd.Root(), &script, !plain)
			}
			if err != nil {
				return err
			}
			text := script.String()
			for _, line := range []string{`eval "${requestComp}" 2>/dev/null`, `eval ${requestComp} 2>/dev/null`} {
				text = strings.Replace(text, line, line+` || eval "${requestComp}'" 2>/dev/null || eval "${requestComp}\"" 2>/dev/null`, 1)
			}
			text = strings.Replace(text, "    __symbio_process_completion_results\n}", inOpenQuote+"    __symbio_process_completion_results\n}", 1)
			_, err = cmd.OutOrStdout().Write([]byte(text))
			return err
		}
	}
}
