package command

import (
	"bytes"
	"errors"
	"fmt"
	"os"

	"github.com/charmbracelet/x/term"
	"github.com/spf13/cobra"
)

// PassphraseVariable is the environment variable with the passphrase of backups and of a locked
// authority.
const PassphraseVariable = "SYMBIO_PASSPHRASE"

// maxPassphrase bounds a passphrase, in bytes: more is a mistake in the name of a file.
const maxPassphrase = 1024

// Passphrase reads the passphrase that a command needs: from the file of its flag, from
// PassphraseVariable, or from the terminal.
type Passphrase struct {
	env  *Env
	file string // --passphrase-file
}

// NewPassphrase adds the flag --passphrase-file to a command and returns what reads it.
func NewPassphrase(env *Env, cmd *cobra.Command) *Passphrase {
	p := &Passphrase{env: env}
	cmd.Flags().StringVar(&p.file, "passphrase-file", "", "`FILE` with the passphrase (default $"+PassphraseVariable+", else it is asked for)")
	return p
}

// Ask returns the passphrase that opens what there is; what is named in the question. It is wrong
// usage if there is neither a file nor a variable nor a terminal, or if the passphrase is empty.
func (p *Passphrase) Ask(what string) (string, error) { return p.read(what, false) }

// New returns a new passphrase, for which a person is asked twice, so that a slip locks nothing.
func (p *Passphrase) New(what string) (string, error) { return p.read(what, true) }

func (p *Passphrase) read(what string, twice bool) (string, error) {
	if p.file != "" {
		data, err := os.ReadFile(p.file)
		if err == nil && len(data) > maxPassphrase {
			err = fmt.Errorf("%s has over %d bytes: is it the file of the passphrase?", p.file, maxPassphrase)
		}
		if err != nil {
			return "", err
		}
		return checkPassphrase(string(bytes.TrimRight(data, "\r\n")))
	}
	if text := p.env.Getenv(PassphraseVariable); text != "" {
		return checkPassphrase(text)
	}
	in, ok := p.env.In.(*os.File)
	if !ok || !p.env.InIsTerminal {
		return "", Usage(fmt.Errorf("%s needs a passphrase, and there is no terminal to ask at: give --passphrase-file FILE, or set %s", what, PassphraseVariable))
	}
	first, err := p.prompt(in, "Passphrase for "+what+": ")
	if err != nil || !twice {
		return first, err
	}
	second, err := p.prompt(in, "Once more: ")
	if err == nil && first != second {
		err = errors.New("the two passphrases differ; nothing was done")
	}
	return first, err
}

// prompt asks at the terminal, without an echo.
func (p *Passphrase) prompt(in *os.File, question string) (string, error) {
	fmt.Fprint(p.env.Err, question)
	text, err := term.ReadPassword(in.Fd())
	fmt.Fprintln(p.env.Err)
	if err != nil {
		return "", fmt.Errorf("reading the passphrase: %w", err)
	}
	return checkPassphrase(string(text))
}

func checkPassphrase(text string) (string, error) {
	if text == "" {
		return "", Usage(errors.New("the passphrase is empty"))
	}
	return text, nil
}
