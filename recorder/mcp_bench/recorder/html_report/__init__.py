"""A report as one page of HTML, with its charts as pictures beside it."""
