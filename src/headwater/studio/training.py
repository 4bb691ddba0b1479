"""The screen ``training``."""

from fastapi import APIRouter

router = APIRouter(tags=["training"])
