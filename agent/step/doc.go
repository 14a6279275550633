// Package step composes work from typed steps: some are plain functions, some models, some
// agents and capabilities of other machines.
//
// The one idea: a [Step] turns an In into an Out, and what is composed of steps is a step again. So
// a whole pipeline can be raced, retried, guarded, or put on another machine, exactly as one
// function can; and the compiler checks that what one step gives is what the next one takes.
//
//	research := step.Capability[string, []Source]("web.search") // done by another node of the cluster
//	draft := step.Generate[[]Source, Draft](promptOf)           // done by a model
//
//	review := step.Chain3(
//		step.Gate(notEmpty),
//		step.Timeout(time.Minute, research),
//		step.Retry(step.Again{Tries: 3}, draft),
//	)
//	review = step.Guardrail(review, guardrail.Deny("Bash(rm:*)"))
//	review = step.With(step.Session{Model: model}, step.With(step.NewCluster(community), review))
//	d, err := review.Run(ctx, "tides")
//
// Overview:
//
//	a step of a function     Func  Transform  Gate  Passthrough  Blocked
//	of a model               Generate  GenerateText
//	of another agent         Agent  Task  Capability
//	of nothing much          Empty  Join  Any
//	one after another        Pipeline  Chain2 … Chain8  Loop  Reduce
//	beside each other        Parallel  Race  Map
//	a step, but              Timeout  Retry  Catch
//	a step, watched          Monitor  Trace  EmitBefore  EmitAfter
//	a step, with             With  Guardrail
//	what steps share         Memory  Relay  Value  Reader  EventBus  Cluster
//
// Guarantees. Run returns when the work is done, has failed, or ctx has ended, and nothing that it
// started runs on: who is cancelled is waited for, so a step that does not heed its context holds
// up those around it. When ctx ends, what composes steps fails with its cause. Every step here may
// be run by many goroutines at once if the steps and functions it is made of may. Between steps
// nothing is copied, converted, or allocated. A panic of a step that runs beside others is a panic
// of the Run that they belong to, once the others have ended.
//
// It does not keep anything of a run (no checkpoints, no history), plan, or decide what an
// agent may do with tools: a guardrail can only take away, and what an agent may do at all is said
// in security/permission.
package step
