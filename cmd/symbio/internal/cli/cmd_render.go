package cli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"symbio/cmd/symbio/internal/demo"
)

// maxSurvey bounds what render-report reads, in bytes.
const maxSurvey = 16 << 20

// cmdRender is what the tour's node b offers as report.render: JSON in, JSON out.
func (a *App) cmdRender() *cobra.Command {
	return &cobra.Command{
		Use:    "render-report",
		Short:  "Render a survey, JSON on standard input, as Markdown in a JSON string",
		Hidden: true,
		Args:   noArgs,
		RunE: func(*cobra.Command, []string) error {
			input, err := io.ReadAll(io.LimitReader(a.In, maxSurvey+1))
			if err != nil {
				return err
			}
			if len(input) > maxSurvey {
				return fmt.Errorf("the survey is larger than %d MiB", maxSurvey>>20)
			}
			text, err := demo.Render(input)
			if err != nil {
				return err
			}
			return a.printLine(text)
		},
	}
}
