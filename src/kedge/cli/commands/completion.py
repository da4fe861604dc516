"""kedge completion: print the script with which a shell completes commands, options, run ids and tasks."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print a shell completion script.

    \b
    bash: eval "$(kedge completion bash)"     in ~/.bashrc
    zsh:  eval "$(kedge completion zsh)"      in ~/.zshrc
    fish: kedge completion fish > ~/.config/fish/completions/kedge.fish
    """
    script = get_completion_class(shell)
    assert script is not None, shell
    root = ctx.find_root().command
    click.echo(script(root, {}, "kedge", "_KEDGE_COMPLETE").source())
