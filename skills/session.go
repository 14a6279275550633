package skills

import "context"

// Session is what a conversation does with skills (skills-swiftagent.md 6.2): one agent's view of a
// Registry. Skills that are off have no Registry; the zero Session then lists nothing and finds nothing.
type Session struct {
	registry *Registry
	agent    string
}

// NewSession returns an agent's session; r may be nil.
func NewSession(r *Registry, agent string) Session { return Session{r, agent} }

// List are the skills that there are.
func (s Session) List() []Skill {
	if s.registry == nil {
		return nil
	}
	return s.registry.Now().Skills
}

// Activate takes a skill as a person would. Its errors are those of Registry.Take.
func (s Session) Activate(ctx context.Context, name string) (Activation, error) {
	if s.registry == nil {
		return Activation{}, notFound(name, "")
	}
	return s.registry.Take(ctx, Want{Agent: s.agent, Name: name, By: ByPerson})
}

// Deactivate gives a skill back; one that is not active is no error.
func (s Session) Deactivate(ctx context.Context, name string) error {
	active, err := s.active(ctx, name)
	if err != nil || !active {
		return err
	}
	return s.registry.Deactivate(ctx, s.agent, name)
}

func (s Session) active(ctx context.Context, name string) (bool, error) {
	if s.registry == nil {
		return false, nil
	}
	return s.registry.IsActive(ctx, s.agent, name)
}

// Active names the active skills, in order.
func (s Session) Active(ctx context.Context) ([]string, error) {
	if s.registry == nil {
		return nil, nil
	}
	return s.registry.Active(ctx, s.agent)
}
