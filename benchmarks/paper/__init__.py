"""The paper's tables and figures, made by this program: what is compared (`systems`), what that takes (`plan`), how it
is done (`work`, `slots`), what is there (`kept`), what the paper has (`published`), how it is written (`document`)."""
