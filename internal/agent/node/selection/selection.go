// Package selection asks a model which skills of a catalog it would take for a task, as an agent would
// that begins with the task. It starts no agent, and runs no tool.
package selection

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"

	"symbio/agent/definition"
	"symbio/agent/llm"
	"symbio/agent/node/config"
	"symbio/agent/tool/skill"
	"symbio/internal/agent/node/models"
	"symbio/skills"
)

// Selector asks one model about one catalog. It is not safe for concurrent use.
type Selector struct {
	models  *models.Models
	model   llm.Model
	catalog skills.Catalog
	request llm.Request // the prompt and the tools for skills of the agent general
}

// Config says what the model is shown, and how it is reached; see models.Config.
type Config struct {
	Settings config.Config
	Catalog  skills.Catalog
	Prompt   skills.PromptOptions
	Getenv   func(string) string
	Logger   *slog.Logger
}

// Open opens the model of a name, "" for the configured one. The caller must close the Selector.
func Open(ctx context.Context, cfg Config, name string) (*Selector, error) {
	s := &Selector{models: models.New(models.Config{Settings: cfg.Settings, Getenv: cfg.Getenv, Logger: cfg.Logger}), catalog: cfg.Catalog}
	var err error
	if s.model, err = s.models.Open(ctx, name); err != nil {
		s.Close()
		return nil, err
	}
	s.request.System = definition.General().Instructions + "\n\n" + skills.Render(cfg.Catalog, cfg.Prompt).Text
	fixed := fixedCatalog{now: &skills.Snapshot{Catalog: cfg.Catalog}}
	for _, t := range skill.Tools(skill.Config{Registry: fixed, Names: cfg.Settings.Skills.Tools, Shown: cfg.Prompt}) {
		s.request.Tools = append(s.request.Tools, t.Spec())
	}
	return s, nil
}

// Close closes the model.
func (s *Selector) Close() { s.models.Close() }

// Model names the model.
func (s *Selector) Model() string { return s.model.Name() }

// Select returns the names of the skills that the model asks for in its answer to a task.
func (s *Selector) Select(ctx context.Context, task string) ([]string, error) {
	s.request.Messages = []llm.Message{{Role: llm.User, Text: task}}
	answer, err := llm.Collect(s.model.Stream(ctx, s.request), nil)
	names := []string{}
	for _, call := range answer.Message.Calls {
		var args struct{ SkillName, Name, Path string }
		if call.Name != skill.Activate && call.Name != skill.Load || json.Unmarshal(call.Args, &args) != nil {
			continue
		}
		if one, err := s.catalog.Resolve(cmp.Or(args.Path, args.SkillName, args.Name), skills.DuplicatesPrecedence); err == nil {
			names = append(names, one.Name)
		}
	}
	return names, err
}

// fixedCatalog is a registry with a catalog, from which nothing can be activated.
type fixedCatalog struct {
	skill.Registry
	now *skills.Snapshot
}

// Now returns the catalog.
func (f fixedCatalog) Now() *skills.Snapshot { return f.now }
